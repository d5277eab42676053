"""What can come next: tables after FROM, columns after an alias, and else words. Needs no Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..explain.sql_text import KEYWORDS
from ..rewriter.sql.dialect import quote

#: Words that the name of a relation follows.
_BEFORE_TABLE = ("FROM", "JOIN", "TABLE", "DESCRIBE", "DESC", "STREAM", "VIEW")

_NAME = r"`[^`]+`|\w+"


@dataclass(slots=True)
class Names:
    """What exists now; the shell keeps it up to date.

    Parameters
    ----------
    tables
        Columns of every table, view and stream, by its name.
    sinks
        The names of the sinks.
    functions
        The names of Spark's functions.
    """

    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sinks: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()


def suggestions(text: str, cursor: int, names: Names) -> Iterator[tuple[str, str, int]]:
    """Yield what can stand at the cursor: the text, what it is, and how many characters before it are replaced.

    Examples
    --------
    >>> names = Names({"orders": ("id", "total"), "paid": ("order_id",)})
    >>> list(suggestions("SELECT o.t FROM orders AS o", 10, names))
    [('total', 'column of orders', 1)]
    >>> list(suggestions("SELECT paid.", 12, names))
    [('order_id', 'column of paid', 0)]
    >>> [found for found, _, _ in suggestions("SELECT * FROM ", 14, names)]
    ['orders', 'paid']
    """
    begin = text.rfind(";", 0, cursor) + 1
    end = text.find(";", cursor)
    statement, before = text[begin : end if end >= 0 else None], text[begin:cursor]
    word = re.search(rf"(?:({_NAME})\s*\.\s*)?([\w\\]*)$", before)
    assert word is not None  # both parts may be empty
    qualifier, prefix = word[1], word[2]
    used = _relations(statement, names)
    if qualifier is not None:
        known = {name.lower(): name for name in names.tables} | used  # FROM may not have been typed yet
        table = known.get(qualifier.strip("`").lower())
        columns = names.tables.get(table or "", ())
        yield from _matching(((quote(column), f"column of {table}") for column in columns), prefix)
        return
    ahead = re.findall(r"\w+|[^\w\s]", before[: word.start()])[-1:] or [""]
    relations = [(quote(name), "table") for name in names.tables]
    if ahead[0].upper() == "INTO":
        yield from _matching([*((quote(name), "sink") for name in names.sinks), *relations], prefix)
    elif ahead[0].upper() in _BEFORE_TABLE:
        yield from _matching(relations, prefix)
    elif prefix:
        found = {quote(column): f"column of {table}" for table in used.values() for column in names.tables[table]}
        found |= {quote(alias): f"alias of {table}" for alias, table in used.items() if alias != table.lower()}
        upper = prefix.isupper() or not before[: word.start()].strip()
        found |= {key if upper else key.lower(): "keyword" for key in KEYWORDS}
        yield from _matching([*found.items(), *relations, *((name, "function") for name in names.functions)], prefix)


def _relations(statement: str, names: Names) -> dict[str, str]:
    """Return the tables that a statement reads, by their aliases and names in lower case."""
    tables = {name.lower(): name for name in names.tables}
    found: dict[str, str] = {}
    pattern = rf"(?:\bFROM|\bJOIN|,)\s*({_NAME})(?:\s+(?:AS\s+)?({_NAME}))?"
    for at in range(len(statement)):
        match = re.compile(pattern, re.IGNORECASE).match(statement, at)
        table = match and tables.get(match[1].strip("`").lower())
        if match and table:
            alias = (match[2] or match[1]).strip("`")
            found[(match[1] if alias.upper() in KEYWORDS else alias).strip("`").lower()] = table
    return found


def _matching(found: object, prefix: str) -> Iterator[tuple[str, str, int]]:
    seen = set[str]()
    for text, what in found:  # type: ignore[attr-defined]
        bare = text.strip("`").lower()
        if bare.startswith(prefix.lower()) and text not in seen:
            seen.add(text)
            yield text, what, len(prefix)
