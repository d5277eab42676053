"""Which of the columns that did not resolve Spark will certainly not resolve either, and where they were looked for."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from .lookup import Names
from .scopes import Frame, Misnamed

#: What looks like a column and is none: functions without parentheses, units of time, ALL.
_WORDS_OF_SPARKS = frozenset(
    {"current_date", "current_timestamp", "current_time", "localtimestamp", "current_user", "session_user", "user"}
    | {"current_catalog", "current_database", "current_schema", "grouping__id", "all", "dayofweek", "dayofyear"}
    | {f"{unit}{plural}" for unit in ("year", "quarter", "month", "week", "day", "hour") for plural in ("", "s")}
    | {f"{unit}{plural}" for unit in ("minute", "second", "millisecond", "microsecond") for plural in ("", "s")}
)


def misnamed(column: exp.Column, frames: list[Frame], names: Names) -> Iterator[Misnamed]:
    """Yield a column that several relations have, or none although all in scope are known.

    Parameters
    ----------
    column
        A column that did not resolve.
    frames
        The relations in scope, the nearest ones first.
    names
        Compares names.
    """
    if len(column.parts) > 2 or column.find_ancestor(exp.Lambda, exp.Lateral) is not None:
        return  # a variable, perhaps, or a column of a relation before LATERAL
    sources = [one for frame in frames for one in frame.sources]
    complete = all(frame.complete for frame in frames)
    if column.table:
        named = [[one for one in frame.sources if names.names_source(one, [column.table])] for frame in frames]
        nearest = next(filter(None, named), [])
        if len(nearest) == 1 and (nearest[0].parts or nearest[0].fields) and complete:
            yield Misnamed(column, nearest)
        elif not nearest and complete and not _is_struct(column):
            yield Misnamed(column, sources)
        return
    key = names.key(column.name)
    owners = [one for one in frames[0].sources if any(names.key(field.name) == key for field in one.fields or ())]
    if len(owners) > 1:
        yield Misnamed(column, owners, ambiguous=True)
    elif complete and not _is_word_of_sparks(column):
        yield Misnamed(column, sources)


def _is_struct(column: exp.Column) -> bool:
    """Tell whether ``w.start`` may be a field of a result: of a window, or of an item of SELECT."""
    select = column.find_ancestor(exp.Select)
    own = column.find_ancestor(exp.Alias)
    results = [] if select is None else [one.alias.lower() for one in select.expressions if one is not own]
    return column.table.startswith("_") or column.table.lower() in ("window", "session_window", *results)


def _is_word_of_sparks(column: exp.Column) -> bool:
    return column.name.lower() in _WORDS_OF_SPARKS or isinstance(column.parent, exp.PropertyEQ | exp.Kwarg)
