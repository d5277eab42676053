"""A first look at a statement, so that a query that is not ours costs next to nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from ..errors import SqlSyntaxError
from .sql.dialect import closest_of, tokenize
from .sql.hints import OUR_HINTS, for_spark, our_hints, read_hints
from .sql.statement import Statement, parse_statement

Joins = Literal["none", "outer", "inner"]

#: Strings, quoted names and comments as a whole; words; and the signs that end FROM.
_PIECE = re.compile(
    r"""'[^']*' | "[^"]*" | `[^`]*` | --[^\n]* | (?P<comment>/\*.*?(?:\*/|\Z)) | (?P<word>\w+) | (?P<sign>[(),;])""",
    re.DOTALL | re.VERBOSE,
)
#: Words that need a closer look wherever they stand, and words after which a comma joins nothing.
_TELLING = frozenset({"JOIN", "EXPLAIN", "WITHIN", "EXISTS"})
_AFTER_FROM = frozenset(
    {
        *("SELECT", "WHERE", "GROUP", "HAVING", "QUALIFY", "WINDOW", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT"),
        *("UNION", "EXCEPT", "MINUS", "INTERSECT"),
    }
)


#: By pattern in a text: the setting and its value under which Spark reads it differently from our parser.
_OTHER_READINGS = (
    (r"\\", "spark.sql.parser.escapedStringLiterals", "true"),
    ('"', "spark.sql.ansi.doubleQuotedIdentifiers", "true"),
    (r"(?is)\bWITH\b.*\bWITH\b", "spark.sql.legacy.ctePrecedencePolicy", "legacy"),
)


def read_otherwise(sql: str, setting: Callable[[str], str | None]) -> bool:
    """Return whether the session's settings make Spark read a text differently from us."""
    return any(
        re.search(pattern, sql) and (setting(name) or "").strip().lower() == value
        for pattern, name, value in _OTHER_READINGS
    )


@dataclass(frozen=True)
class Glance:
    """The result of a glance at a statement.

    Parameters
    ----------
    joins
        ``none`` is Spark's, and so is ``outer`` (its joins are outer, semi or anti joins, or a hint leaves them to
        Spark) over tables. ``inner`` is anything that needs a closer look: an inner join, a view, EXISTS, IN, EXPLAIN,
        WITHIN, another hint of ours.
    spark_sql
        For ``none`` and ``outer``: the statement, without a hint that only we know.
    statement
        The statement, if it had to be parsed.
    """

    joins: Joins
    spark_sql: str
    statement: Statement | None = None


def glance(sql: str) -> Glance:
    """Tell which joins a statement has. Text that cannot have an inner join is not even parsed.

    Raises
    ------
    SqlSyntaxError
        The text had to be parsed, and does not parse.
    """
    if not _may_join(sql):
        return Glance("none", sql)
    statement = parse_statement(sql)
    if statement.tree is None:
        return Glance("none", sql)
    if statement.kind == "explain":
        return Glance("inner", sql, statement)
    left_alone, hinted = set(), False
    for select in statement.tree.find_all(exp.Select):
        ours = our_hints(select)
        if ours == 1 and statement.kind == "select" and not read_hints(select).convert:
            left_alone.add(id(select))
            hinted = True
        if (ours and id(select) not in left_alone) or select.args.get("within"):
            return Glance("inner", sql, statement)
    joins = list(statement.tree.find_all(exp.Join))
    tested = statement.tree.find_all(exp.Exists, exp.In)  # over a stream, which Spark refuses, they are joins of ours
    if any(isinstance(one, exp.Exists) or one.args.get("query") for one in tested):
        return Glance("inner", sql, statement)
    if statement.kind == "create_view" and joins:
        return Glance("inner", sql, statement)  # Spark would know such a view as a text, and look no further
    for join in joins:
        if closest_of(join) is not None:  # Spark runs none on streams, and older versions none at all
            return Glance("inner", sql, statement)
        if not join.side and join.kind not in ("SEMI", "ANTI") and id(join.parent_select) not in left_alone:
            return Glance("inner", sql, statement)
    return Glance("outer" if joins else "none", for_spark(statement) if hinted else sql, statement)


def misplaced_hints(sql: str) -> Iterator[str]:
    """Yield what is said of hints of ours that do not stand right behind SELECT: to Spark they are comments.

    Examples
    --------
    >>> [one.partition(";")[0] for one in misplaced_hints("SELECT a /*+ UNITS(4) */ FROM r")]
    ['the hint UNITS stands behind a column or a name, where it is a comment']
    """
    end, hinted = 0, False
    for piece in _PIECE.finditer(sql):
        text = piece.group().upper()
        if text.startswith("/*+"):
            name = next((name for name in OUR_HINTS if name in text), None)
            if name is not None and not (hinted and not sql[end : piece.start()].strip()):
                yield f"the hint {name} stands behind a column or a name, where it is a comment; write it behind SELECT"
        else:
            hinted = text == "SELECT"
        end = piece.end()


def tries_pairs(statement: Statement) -> bool:
    """Tell whether a join of a statement has a condition, and may equate nothing by it. False is certain.

    It goes by names in the text alone, so that a statement over tables which Spark runs well is not even planned. Of a
    plan, `rules.rule.equates` tells it exactly.
    """
    joins = statement.tree.find_all(exp.Join) if statement.tree else ()
    return any(not _equates(join) for join in joins if join.args.get("on") is not None)


def _equates(join: exp.Join) -> bool:
    """Tell whether a conjunct equates the right side of a join, by its name, with another relation."""
    on, right = join.args["on"].unnest(), join.alias_or_name.lower()
    for one in on.flatten() if isinstance(on, exp.And) else (on,):
        if isinstance(one, exp.EQ | exp.NullSafeEQ):
            tables = {column.table.lower() for column in one.find_all(exp.Column)}
            if right in tables and "" not in tables and len(tables) > 1:
                return True
    return False


def left_to_spark(sql: str) -> bool:
    """Tell whether a statement that only Spark can parse has the hint NO_TRIJOIN.

    Examples
    --------
    >>> left_to_spark("FROM r |> SELECT /*+ NO_TRIJOIN */ r.x"), left_to_spark("FROM r |> SELECT 'NO_TRIJOIN'")
    (True, False)
    """
    if "NO_TRIJOIN" not in sql.upper():
        return False
    try:
        return any("NO_TRIJOIN" in one.text.upper() for one in tokenize(sql) if one.token_type is TokenType.HINT)
    except SqlSyntaxError:
        return False


def _may_join(sql: str) -> bool:
    """Tell whether a text may be a statement with an inner join, or may be ours for another reason.

    False is certain. A backslash may end a string or not, so it always needs a closer look.
    """
    if "\\" in sql:
        return True
    in_from, before = [False], ""
    for piece in _PIECE.finditer(sql):
        comment, word, sign = piece["comment"], piece["word"], piece["sign"]
        if word:
            upper = word.upper()
            if upper in _TELLING or (upper in ("SELECT", "WITH") and before == "IN("):
                return True
            if upper == "FROM":
                in_from[-1] = True
            elif upper in _AFTER_FROM:
                in_from[-1] = False
            before = upper
        elif comment:
            if comment.startswith("/*+") or "/*" in comment[2:]:  # a hint, or a comment inside a comment
                return True
        elif sign == "(":
            in_from.append(False)
            before += sign
        elif sign == ")" and len(in_from) > 1:
            in_from.pop()
        elif sign == "," and in_from[-1]:
            return True
    return False
