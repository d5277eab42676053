"""Checks that the folders of a job can be read and written, as far as this machine can tell."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit


def local_path(location: str) -> Path | None:
    """Return the local path of a location, None if it is elsewhere."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return Path(unquote(parts.path)).absolute()
    return None if parts.scheme else Path(location).absolute()


def why_unreadable(location: str) -> str | None:
    """Return why no stream can be read from a location, None if there is no known reason."""
    path = local_path(location)
    if path is None or re.search(r"[*?\[{]", location):
        return None
    if not path.exists():
        return f"{location} does not exist"
    if not os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0)):
        return f"{location} cannot be read: permission denied"
    if not path.is_dir():  # a pattern is fine
        return f"{location} is a file, and a stream reads the files of a folder"
    return None


def why_unwritable(location: str) -> str | None:
    """Return why nothing can be written to a folder, which need not exist; None if there is no known reason."""
    path = local_path(location)
    if path is None:
        return None
    if path.exists() and not path.is_dir():
        return f"{location} is a file, where a folder is needed"
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    if not there.is_dir():
        return f"{location} cannot be made: {there} is a file"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{location} cannot be written to: permission denied"
    return None
