"""What the rewriter asks about tables, and a catalog made of DDL, so that EXPLAIN works without Spark."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from ...errors import InvalidSettingError
from ..plan.parts import Column, RowsFrom

if TYPE_CHECKING:
    from .clauses import Options

#: The option that declares a stream's rows a second, and the prefix of the settings that declare them by name.
RATE_OPTION = "trijoin.rowsPerSecond"
RATE_SETTING = "spark.trijoin.rate."

#: What the name of a view that stands for a DataFrame begins with; the DataFrame's own name follows. Behind that of a
#: stream that begins with a table stands what tells it from others of its name.
FRAME = "__trijoin_arg"
_OF_HISTORY = re.compile(rf"\b({FRAME}\w*?)__[0-9a-f]{{8}}\b")


def history_name(view: str, told_apart: str) -> str:
    """Return the name of the view of a stream that begins with a table.

    Parameters
    ----------
    view
        What it would be called without a table.
    told_apart
        The stream, the table and where its rows lie: views of users read it by its name, whatever comes later.
    """
    return f"{view}__{hashlib.sha256(told_apart.encode()).hexdigest()[:8]}"


def with_histories_named(text: str) -> str:
    """Return a text about relations in the words of users, where they begin with tables.

    Examples
    --------
    >>> with_histories_named("__trijoin_arg_r__0123abcd AS r")
    'r HISTORY AS r'
    """
    return _OF_HISTORY.sub(lambda found: f"{own_name(found[1])} HISTORY", text)


def own_name(relation: str) -> str:
    """Return the name by which a user knows what a view of ours may stand for; a strange one is not in the view's.

    Examples
    --------
    >>> [own_name(one) for one in ("r", "__trijoin_arg_r", "__trijoin_arg_r__0123abcd", "__trijoin_arg1__0123abcd")]
    ['r', 'r', 'r', '__trijoin_arg1']
    """
    return _OF_HISTORY.sub(r"\1", relation).removeprefix(f"{FRAME}_")


#: A column that has a watermark, and the watermark's delay in microseconds.
Time = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class TableInfo:
    """What is known about a table, a view or a stream.

    Parameters
    ----------
    columns
        Its columns in order; empty if they are not known.
    streaming
        Whether it is a stream; None if unknown.
    rows
        Rows (batch) or rows a second (stream), if known.
    times
        The columns that have a watermark. If there are several, as in a join of streams, the first is its event
        time unless a query says more.
    rows_from
        Where the number of rows comes from.
    stateful
        Whether a stateful operator makes the rows of the stream: see `plan.nodes.Scan`.
    behind
        By how much, in microseconds, such rows may come behind the watermark: of a view, what joins of ours in it add.
    in_warehouse
        The relative path of a CREATE TABLE, if it has one: Spark takes it from its warehouse on.
    """

    columns: tuple[Column, ...]
    streaming: bool | None = None
    rows: float | None = None
    times: tuple[Time, ...] = ()
    rows_from: RowsFrom = "declared"
    stateful: bool = False
    behind: int = 0
    in_warehouse: str | None = None


#: From a format and its options to the columns that its streams always have: pairs of a name and a type.
FixedColumns = Callable[[str, "Options"], Iterable[tuple[str, str]]]


#: From expressions, and the types of the columns that they may read by ``(alias, name)``, to Spark's types of them, in
#: order; empty if they are not known.
TypesOf = Callable[[Sequence[str], Mapping[tuple[str, str], str]], Sequence[str]]


class Catalog(Protocol):
    """Knows tables by name, and Spark's types of expressions."""

    def table(self, name: tuple[str, ...]) -> TableInfo | None:
        """Return what is known about a table, given the parts of its name; None if there is no such table."""

    def types_of(self, texts: Sequence[str], columns: Mapping[tuple[str, str], str]) -> Sequence[str]:
        """Return Spark's types of expressions, as a `TypesOf`."""


@dataclass(frozen=True)
class DdlCatalog:
    """A catalog made of ``CREATE TABLE`` and ``CREATE STREAM`` statements; names are not case-sensitive.

    Parameters
    ----------
    tables
        The declared tables, in order.
    rates
        Rows a second of streams by name; they have precedence over the streams' own declarations.
    """

    tables: tuple[tuple[str, TableInfo], ...] = ()
    rates: tuple[tuple[str, float], ...] = ()

    def table(self, name: tuple[str, ...]) -> TableInfo | None:
        """Return the last definition of ``name``."""
        wanted = ".".join(name).lower()
        for known, info in reversed(self.tables):
            if known.lower() == wanted:
                rate = {name.lower(): rows for name, rows in self.rates}.get(wanted)
                return info if rate is None or not info.streaming else replace(info, rows=rate, rows_from="declared")
        return None

    def types_of(self, texts: Sequence[str], columns: Mapping[tuple[str, str], str]) -> Sequence[str]:
        """Return nothing: there is no Spark to ask."""
        return ()

    def with_tables(self, tables: Iterable[tuple[str, TableInfo]]) -> DdlCatalog:
        """Return a catalog that knows more tables."""
        return replace(self, tables=(*self.tables, *tables))

    def with_rate(self, name: str, rows: float) -> DdlCatalog:
        """Return a catalog that knows a stream's rows a second."""
        return replace(self, rates=(*self.rates, (name, rows)))


def positive(text: str) -> float | None:
    """Return a text as a finite number above 0, None if it is not one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None


def declared(setting: str, text: str) -> float:
    """Return the rows a second that a setting ``spark.trijoin.rate.NAME`` declares.

    Raises
    ------
    InvalidSettingError
        The value is not a number above 0.
    """
    rows = positive(text)
    if rows is None:
        raise InvalidSettingError(setting, text, "it takes a number of rows a second above 0")
    return rows
