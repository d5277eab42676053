"""Rows that vanish without an error: those with NULL where a condition needs a value, and inputs that bring none.

Slots report both; `Vanished` adds the reports up over a run of a query, and says each thing once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from ..explain.wording import count
from ..operators.spec import PREFIX
from ..operators.task.dispatch import NULL_ROWS
from ..operators.task.outputs import add_null_rows

#: An input is idle after this many micro-batches without a row.
IDLE = 3

_SILENT = (
    "no row of {} has come, so nothing joins; while its stream brings none, the watermark waits for it, and no state "
    "expires"
)
_FILTERED = "no row of {} is left to join: conditions on it, or a table that it is joined with first, drop all so far"

_CAUSES = "a column that the data do not have, corrupt lines, or values in another format (timestampFormat) give NULL"


@dataclass(slots=True, repr=False)
class Vanished:
    """What a run of a query has lost so far. ``print`` gives it as sentences.

    Parameters
    ----------
    rows
        By the alias of an input that had NULL where a condition or the event time needs a value, a dictionary:
        ``rows`` that were looked at, how many of them were ``dropped``, ``columns`` with the number of NULLs by the
        text of each, and ``time``, the text of the event time (None if it has none).
    """

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    _batches: int = 0
    _known: dict[str, bool] = field(default_factory=dict)  # by input, whether a row of it has come
    _told: dict[str, str] = field(default_factory=dict)
    _fed: list[bool] = field(default_factory=list)  # by source of the query, whether Spark has read a row of it

    def read(self, rows: Iterable[int]) -> None:
        """Take note of what Spark has read in a micro-batch.

        Parameters
        ----------
        rows
            For each source of the query.
        """
        self._fed = [before or bool(now) for before, now in zip_longest(self._fed, rows, fillvalue=False)]

    def add(self, slots: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return what is to be said now that a join's slots have reported of a micro-batch.

        Parameters
        ----------
        slots
            Their reports.
        """
        if not slots:
            return []
        brought: dict[str, bool] = {}
        for slot in slots:
            for alias, time in slot.get("inputs", {}).items():
                brought[alias] = brought.get(alias, False) or time is not None
        found = [slot[NULL_ROWS] for slot in slots if NULL_ROWS in slot]
        for alias, came in brought.items():
            self._known[alias] = self._known.get(alias, False) or came
        self._batches += any(brought.values())
        self.rows = add_null_rows([self.rows, *found])
        said = self._of_nulls() if found else []
        return said + (self.silent(True) if self._batches >= IDLE else [])

    def _of_nulls(self) -> list[str]:
        """Return what is suspicious about NULLs: an event time, or a column of which no row has had a value."""
        found = []
        for alias, one in self.rows.items():
            untimed = one["columns"].get(one["time"], 0)
            never = not self._known.get(alias)
            whole = [] if not never else [name for name, nulls in one["columns"].items() if nulls == one["rows"]]
            if whole:
                names = f"{_listed(whole)} {'is' if len(whole) == 1 else 'are'}"
                text = f"no row of {alias} can join: {names} NULL in all {one['rows']:,} rows so far; {_CAUSES}"
                found += self._once(f"{alias} all", text)
            elif untimed:
                text = f"{count(untimed, 'row')} of {alias} without event time, dropped: {one['time']} is NULL"
                found += self._once(f"{alias} time", f"{text}; {_CAUSES}")
        return found

    def silent(self, while_others: bool = False) -> list[str]:
        """Return the inputs that have brought no row, each once.

        Parameters
        ----------
        while_others
            Only if others have.
        """
        names = [alias for alias, came in self._known.items() if not came and alias not in self.rows]
        if while_others and len(names) == len(self._known):
            return []
        text = _FILTERED if self._fed and all(self._fed) else _SILENT
        return [
            said
            for alias in names
            if not alias.startswith(PREFIX)  # the results of another join
            for said in self._once(alias, text.format(alias))
        ]

    def _once(self, what: str, text: str) -> list[str]:
        if what in self._told:
            return []
        self._told[what] = text
        return [text]

    @property
    def said(self) -> list[str]:
        """What is suspicious, in sentences: a column that is always NULL, no event time, an input without rows."""
        return list(self._told.values())

    def __str__(self) -> str:
        return "\n".join([*phrases(self.rows), *self.said]) or "no row has vanished"

    def __repr__(self) -> str:
        return f"<Vanished: {'; '.join(str(self).splitlines())}>"


def phrases(rows: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    """Yield for each input how many of its rows were dropped, and the columns that were NULL."""
    for alias, one in rows.items():
        nulls = ", ".join(f"{name} in {count:,}" for name, count in one["columns"].items())
        yield f"{count(one['dropped'], 'row')} of {alias} cannot join (NULL: {nulls})"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
