"""MATCH_RECOGNIZE, which Spark has not: where it stands in a text, and the joins that say the same."""

from __future__ import annotations

import re
from itertools import pairwise

from ...errors import SqlSyntaxError, line_and_column
from .clauses import QUOTED
from .dialect import tokenize

#: How the clause begins behind its parenthesis; a function may have the same name.
_BEGINS = re.compile(r"\(\s*(?:(?:PARTITION|ORDER)\s+BY\b|MEASURES\b|PATTERN\s*\()", re.IGNORECASE)
_KEYS = re.compile(r"\bPARTITION\s+BY\s+(\w+(?:\s*,\s*\w+)*)", re.IGNORECASE)
_TIME = re.compile(r"\bORDER\s+BY\s+(\w+)", re.IGNORECASE)
_PATTERN = re.compile(r"\bPATTERN\s*\(((?:[^()]|\([^()]*\))*)\)", re.IGNORECASE)


def match_recognize(sql: str) -> SqlSyntaxError | None:
    """Return the refusal of the first MATCH_RECOGNIZE in a text, with the joins to write; None if it has none.

    Examples
    --------
    >>> found = match_recognize("SELECT * FROM r MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts PATTERN (a b+))")
    >>> found.column, found.detail.partition("FROM ")[2].partition(",")[0]
    (17, 'r AS a JOIN r AS b ON b.k = a.k AND b.ts > a.ts WITHIN 10 MINUTES')
    """
    if "MATCH_RECOGNIZE" not in sql.upper():
        return None
    before = ""
    for token in tokenize(sql):
        quoted = token.token_type in QUOTED
        if token.text.upper() == "MATCH_RECOGNIZE" and not quoted and _BEGINS.match(sql[token.end + 1 :].lstrip()):
            detail = (
                f"Spark has no MATCH_RECOGNIZE; write a join for each step, {_joins(before, sql[token.end :])}, and "
                "NOT EXISTS for what must not come between: docs/sequences.md shows both"
            )
            return SqlSyntaxError(detail, sql, *line_and_column(sql, token.start))
        before = token.text
    return None


def _joins(relation: str, clause: str) -> str:
    """Return the first joins of a pattern, by its names where they are plain."""
    keys, time, pattern = _KEYS.search(clause), _TIME.search(clause), _PATTERN.search(clause)
    names = list(dict.fromkeys(re.findall(r"[^\W\d]\w*", pattern[1]))) if pattern else []
    names = names[:3] if len(names) > 1 else ["a", "b"]
    stream = relation if re.fullmatch(r"[^\W\d]\w*", relation) else "r"
    at = time[1] if time else "ts"
    steps = [f"FROM {stream} AS {names[0]}"]
    for one, other in pairwise(names):
        same = "".join(f"{other}.{key} = {one}.{key} AND " for key in re.findall(r"\w+", keys[1] if keys else ""))
        steps.append(f"JOIN {stream} AS {other} ON {same}{other}.{at} > {one}.{at}")
    return f"{' '.join(steps)} WITHIN 10 MINUTES"
