"""The pages of the documentation, and the code blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(path for path in DOCS.glob("*.md") if path.name != "README.md")]

#: The line below a block that cannot run here; the reader sees it too.
EXEMPT = "*Not run by the tests: "

#: Described already and not yet in this clone: methods of the session, commands, options. Empty after the merge.
PENDING: set[str] = set()


@dataclass(frozen=True)
class Block:
    """A code block: its language, text and line, the name that it is saved under, and why it is not run."""

    language: str
    code: str
    line: int
    saved_as: str | None = None
    exempt: str | None = None


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page. "Save it as `NAME`:" above a block gives it its name."""
    text = page.read_text("utf-8")
    found = []
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        above = text[: match.start()].rstrip().rpartition("\n\n")[2]
        saved = re.search(r"Save it as\s+`([\w.]+)`:$", above)
        below = text[match.end() :].lstrip()
        reason = below[len(EXEMPT) :].partition("*")[0] if below.startswith(EXEMPT) else None
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(match[1], match[2], line, saved[1] if saved else None, reason))
    return found


def of_language(page: Path, *languages: str) -> list[Block]:
    """Return the blocks in one of some languages that are not exempt."""
    return [block for block in blocks(page) if block.language in languages and block.exempt is None]
