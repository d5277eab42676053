"""What the rewriter asks about tables, and a catalog made of DDL, so that EXPLAIN works without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ...errors import InvalidSettingError
from ..plan.nodes import Column, RowsFrom

#: The option of a stream that declares its rows a second, and what the settings begin with that declare them by name.
RATE_OPTION = "trijoin.rowsPerSecond"
RATE_SETTING = "spark.trijoin.rate."

#: A column that has a watermark, and the watermark's delay in microseconds.
Time = tuple[str, int | None]


@dataclass(frozen=True, slots=True)
class TableInfo:
    """What is known of a table, a view or a stream.

    Parameters
    ----------
    columns
        Its columns in order.
    streaming
        Whether it is a stream; None if unknown.
    rows
        Rows (batch) or rows a second (stream), if known.
    times
        The columns that have a watermark; of several, as in the results of a join of streams, the first is its event
        time unless a query says more.
    rows_from
        Who says how many rows there are.
    stateful
        Whether an operator with state makes the rows of the stream: see `plan.Scan`.
    """

    columns: tuple[Column, ...]
    streaming: bool | None = None
    rows: float | None = None
    times: tuple[Time, ...] = ()
    rows_from: RowsFrom = "declared"
    stateful: bool = False


#: From a format and the text behind USING to the columns that its streams always have: pairs of a name and a type.
FixedColumns = Callable[[str, str], Iterable[tuple[str, str]]]


#: From expressions, and the types of the columns that they may read by ``(alias, name)``, to Spark's types of them, in
#: order; empty where nobody can tell.
TypesOf = Callable[[Sequence[str], Mapping[tuple[str, str], str]], Sequence[str]]


class Catalog(Protocol):
    """Knows tables by name, and what type Spark gives an expression."""

    def table(self, name: tuple[str, ...]) -> TableInfo | None:
        """Return what is known of a table, given the parts of its name; None if there is no such table."""

    def types_of(self, texts: Sequence[str], columns: Mapping[tuple[str, str], str]) -> Sequence[str]:
        """Return Spark's types of expressions, as a `TypesOf`."""


@dataclass(frozen=True)
class DdlCatalog:
    """A catalog made of ``CREATE TABLE`` and ``CREATE STREAM`` statements; names resolve without regard to case.

    Parameters
    ----------
    tables
        What was declared, in order.
    rates
        Rows a second of streams by name; they go before what the streams' own declarations say.
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
        """Return a catalog that knows how many rows a second a stream brings."""
        return replace(self, rates=(*self.rates, (name, rows)))


def positive(text: str) -> float | None:
    """Return the finite number above 0 that a text is, None if it is none."""
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
        It is no number above 0.
    """
    rows = positive(text)
    if rows is None:
        raise InvalidSettingError(setting, text, "it takes a number of rows a second above 0")
    return rows
