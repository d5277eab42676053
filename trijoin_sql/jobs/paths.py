"""Checks that the folders of a job can be read and written, as far as this machine can tell."""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import unquote, urlsplit

from ..running.recovery import is_of_another


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
    try:  # rights do not tell of a file system that is read-only
        with TemporaryFile(dir=there):
            return None
    except OSError as error:
        return f"{location} cannot be written to: {(error.strerror or str(error)).lower()}"


def why_of_another(output: str, checkpoint: str) -> str | None:
    """Return why a file sink cannot go on in a folder: the results there are not of this checkpoint's query.

    None if it can, or if a folder is elsewhere.
    """
    folder, state = local_path(output), local_path(checkpoint)
    if folder is None or state is None:
        return None
    written = max(_batches(folder / "_spark_metadata"), default=-1)
    committed = max(_batches(state / "commits"), default=-1)
    if not is_of_another(written, committed, _batches(state / "offsets")):
        return None
    here = f"is at batch {committed}" if committed >= 0 else "is new"
    return f"{output} holds results of another checkpoint, of batches up to {written}, and {checkpoint} {here}"


def _batches(log: Path) -> set[int]:
    """Return the batches in a log of Spark's."""
    names = [path.name.removesuffix(".compact") for path in log.iterdir()] if log.is_dir() else []
    return {int(name) for name in names if name.isdigit()}
