"""What each rewriter stage changed in the plan, line by line."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..rewriter.plan.document import Stage

_TREE = " │├└─┌┬┐┤┴┼+-:|*"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of a plan beside the plan before it: ``same``, ``added`` or ``removed``."""

    state: str
    indent: str
    text: str


@dataclass(frozen=True, slots=True)
class StageChange:
    """A stage beside the one before: its ``state`` is ``first``, ``same`` or ``changed``."""

    number: int
    name: str
    state: str
    added: int
    removed: int
    lines: tuple[DiffLine, ...]
    plan: str
    skipped: str | None

    @property
    def lines_now(self) -> tuple[DiffLine, ...]:
        """The current plan, without removed lines and without marks."""
        return tuple(replace(line, state="same") for line in self.lines if line.state != "removed")


def stage_changes(stages: Sequence[Stage]) -> list[StageChange]:
    """Return the stages with the lines that each added and removed; lines that only moved count as the same."""
    changes: list[StageChange] = []
    before: list[str] | None = None
    for number, stage in enumerate(stages, 1):
        plan = stage.plan.expandtabs(4).strip("\r\n")
        lines = plan.splitlines()
        diff = tuple(_diff(before, lines))
        added, removed = (sum(line.state == state for line in diff) for state in ("added", "removed"))
        state = "first" if before is None else "changed" if added or removed else "same"
        changes.append(StageChange(number, stage.name, state, added, removed, diff, plan, stage.skipped))
        before = lines
    return changes


def _diff(before: Sequence[str] | None, after: Sequence[str]) -> list[DiffLine]:
    if before is None:
        return [_line("same", line) for line in after]
    old, new = [line.lstrip(_TREE) for line in before], [line.lstrip(_TREE) for line in after]
    lines: list[DiffLine] = []
    for action, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if action == "equal":
            lines += [_line("same", line) for line in after[j1:j2]]
        else:
            lines += [_line("removed", line) for line in before[i1:i2]]
            lines += [_line("added", line) for line in after[j1:j2]]
    return lines


def _line(state: str, line: str) -> DiffLine:
    content = line.lstrip(_TREE)
    return DiffLine(state, line[: len(line) - len(content)], content)
