"""Statements: a query, and what stands around it, from SQL text; every mistake with its place."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from itertools import pairwise, takewhile
from typing import Any, Literal, NoReturn

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from ...errors import SqlSyntaxError, line_and_column
from .clauses import QUOTED, HistoryClause, history_clauses, late_rows_clauses
from .dialect import DIALECT, NEAREST, WITHIN, WITHIN_TAKES, render, tokenize
from .intervals import MICROSECONDS
from .match_recognize import match_recognize
from .similar import close

EXPLAIN_FORMATS = ("FORMATTED", "JSON", "MERMAID", "HTML")

_NO_ZONE = ["WITHOUT", "TIME", "ZONE"]

_AFTER_WITHIN = (TokenType.NUMBER, TokenType.INTERVAL, TokenType.STRING)

#: What follows the number of an INTERVAL.
_UNITS = (*MICROSECONDS, "MONTH", "YEAR", "QUARTER")

#: What a mistyped word in a query was probably meant to be.
_CLAUSES = (
    *("SELECT", "FROM", "WHERE", "JOIN", "LEFT", "INNER", "CROSS", "USING", "ON", "AND", "BETWEEN", "LIKE"),
    *("GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "INTERSECT", "EXCEPT", "WITHIN"),
)

LATE_ROWS = (
    "LATE ROWS INTO ends an INSERT of a job; in Python ask for late rows with sql(..., late_rows=True), and write them "
    "with trijoin_sql.with_late_rows"
)

ASOF = "ASOF JOIN needs MATCH_CONDITION (r.ts >= s.ts) behind the relation that it joins"


@dataclass(frozen=True)
class View:
    """What a ``CREATE [OR REPLACE] [GLOBAL] TEMPORARY VIEW name [(columns)] AS`` declares.

    Parameters
    ----------
    name
        As SQL, quoted where needed.
    replace
        Whether it says OR REPLACE.
    everywhere
        Whether it says GLOBAL: sessions of one application share it, in the schema ``global_temp``.
    columns
        The names of its columns; empty if they come from the query.
    """

    name: str
    replace: bool = False
    everywhere: bool = False
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Statement:
    """One parsed statement.

    Parameters
    ----------
    kind
        ``select``, ``create_view``, ``explain`` or ``other`` (not parsed any further).
    tree
        The query, None for ``other``.
    view
        For ``create_view``: what it declares.
    explain_format
        For ``explain``: one of `EXPLAIN_FORMATS`, or None for a plain EXPLAIN.
    positional
        How many ``?`` markers there are.
    sql
        Its text, with spaces for what only says where rows come from.
    written
        Its text as the user wrote it.
    histories
        Its clauses HISTORY, which neither the tree nor ``sql`` has.
    """

    kind: Literal["select", "create_view", "explain", "other"]
    tree: exp.Expr | None = None
    view: View | None = None
    explain_format: str | None = None
    positional: int = 0
    sql: str = ""
    written: str = ""
    histories: tuple[HistoryClause, ...] = ()


def without_online(sql: str) -> str:
    """Return a statement without the word ONLINE of BiStream's ``SELECT ONLINE`` (003 section 2): every query is.

    Spaces replace it, so that all other places stay the same. A column named ``online`` stays.

    Examples
    --------
    >>> without_online("SELECT ONLINE r.a, online FROM r")
    'SELECT        r.a, online FROM r'
    """
    if not re.search(r"(?i)\bSELECT\s+ONLINE\s", sql):
        return sql
    tokens = tokenize(sql)
    for before, word, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        names = after.token_type in (TokenType.VAR, TokenType.STAR, TokenType.IDENTIFIER, TokenType.DISTINCT)
        if before.text.upper() == "SELECT" and word.text.upper() == "ONLINE" and names and after.text.upper() != "FROM":
            sql = sql[: word.start] + " " * len(word.text) + sql[word.end + 1 :]
    return sql


def parse_statement(sql: str) -> Statement:
    """Parse one statement; anything but a query is ``other``.

    Raises
    ------
    SqlSyntaxError
        The text is not SQL as we and Spark understand it.
    """
    written, sql = sql, without_online(sql)
    histories = read_histories(sql)
    for one in histories:  # which rows a stream begins with makes no difference to how they are joined
        sql = sql[: one.at] + re.sub(r"[^\n]", " ", sql[one.at : one.end]) + sql[one.end :]
    return dataclasses.replace(_read(sql), sql=sql, written=written, histories=histories)


def read_histories(sql: str) -> tuple[HistoryClause, ...]:
    """Return the clauses HISTORY of a statement.

    Raises
    ------
    SqlSyntaxError
        One of them has a mistake.
    """

    def fail(offset: int, detail: str, hint: str | None) -> NoReturn:
        raise SqlSyntaxError(f"{detail}; {hint}" if hint else detail, sql, *line_and_column(sql, offset))

    if not re.search(r"(?i)\bHISTORY\b", sql):
        return ()
    return tuple(history_clauses(sql, tokenize(sql), fail))


def tree_of(sql: str) -> exp.Expr | None:
    """Return the tree of a query, None of another statement, or if only Spark may be able to parse it."""
    try:
        return parse_statement(sql).tree
    except SqlSyntaxError:
        return None


def _read(sql: str) -> Statement:
    tokens = tokenize(sql)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if not tokens:
        raise SqlSyntaxError("there is no statement", sql, 1, 1)
    for at in late_rows_clauses(tokens):
        raise SqlSyntaxError(LATE_ROWS, sql, *line_and_column(sql, tokens[at].start))
    words = [token.text.upper() for token in tokens[:8]]
    match words:
        case ["EXPLAIN", word, *_] if word in EXPLAIN_FORMATS:
            return _query(sql, tokens[2:], "explain", explain_format=word)
        case ["EXPLAIN", "SELECT" | "WITH" | "(" | "FROM", *_]:
            return _query(sql, tokens[1:], "explain")
        case ["CREATE", *_]:
            return _create(sql, tokens, words)
        case ["SELECT" | "WITH" | "(", *_]:
            return _query(sql, tokens, "select")
    return Statement("other")


def _create(sql: str, tokens: list[Token], words: list[str]) -> Statement:
    position = 1
    replace = words[position : position + 2] == ["OR", "REPLACE"]
    position += 2 * replace
    everywhere = words[position : position + 1] == ["GLOBAL"]
    position += everywhere
    if words[position : position + 2] not in (["TEMP", "VIEW"], ["TEMPORARY", "VIEW"]):
        return Statement("other")
    name, rest = tokens[position + 2 : position + 3], tokens[position + 3 :]
    columns: tuple[str, ...] = ()
    if rest and rest[0].token_type == TokenType.L_PAREN:
        listed = list(takewhile(lambda token: token.token_type != TokenType.R_PAREN, rest[1:]))
        if not listed or any(comma.token_type != TokenType.COMMA for comma in listed[1::2]) or not len(listed) % 2:
            return Statement("other")  # with comments, for example: Spark may know
        columns, rest = tuple(token.text for token in listed[::2]), rest[len(listed) + 2 :]
    if not name or not rest or rest[0].text.upper() != "AS":
        return Statement("other")
    quoted = name[0].token_type == TokenType.IDENTIFIER
    view = View(exp.to_identifier(name[0].text, quoted=quoted).sql(DIALECT), replace, everywhere, columns)
    return _query(sql, rest[1:], "create_view", view=view)


#: What may stand before ASOF JOIN.
_ASOF_SIDES = (("LEFT", "OUTER"), ("LEFT",), ("INNER",))


def positional_name(number: int) -> str:
    """Return the name of a marker ``?``, counted from 1."""
    return f"__p{number}"


def _check_intervals(sql: str, tokens: list[Token]) -> None:
    """Refuse ``INTERVAL 5`` and ``INTERVAL 5 MINUTS``, which sqlglot takes for an interval and an alias."""
    for word, number, unit in zip(tokens, tokens[1:], [*tokens[2:], None], strict=False):
        plain = re.fullmatch(r"\s*[+-]?[\d.]+\s*", number.text) is not None
        if word.token_type != TokenType.INTERVAL or not plain or number.token_type == TokenType.IDENTIFIER:
            continue
        if unit is None or unit.text.upper().removesuffix("S") not in _UNITS:
            has = "has no unit" if unit is None or not unit.text.isalpha() else f"has no unit {unit.text}"
            place = line_and_column(sql, number.end + 1 if unit is None else unit.start)
            raise SqlSyntaxError(f"INTERVAL {has}; write INTERVAL {number.text.strip()} MINUTES, say", sql, *place)


def _with_asof(sql: str, tokens: list[Token]) -> list[Token]:
    """Return tokens with the words of ASOF JOIN in sqlglot's order: ASOF LEFT JOIN.

    To Spark, ASOF is an alias of the relation before where no MATCH_CONDITION follows, and its message says so.
    """
    words = [token.text.upper() for token in tokens]
    for at in range(1, len(words) - 1):
        joined = words[at + 1] == "JOIN" or words[at + 1 : at + 3] in (["LEFT", "JOIN"], ["INNER", "JOIN"])
        if words[at] != "ASOF" or words[at - 1] == "AS" or not joined:
            continue
        pairs = list(pairwise(words))
        if "MATCH_CONDITION" in words[at:] and words[at + 1] == "JOIN":
            side = next((side for side in _ASOF_SIDES if tuple(words[at - len(side) : at]) == side), ())
            first = at - len(side)
            tokens = [*tokens[:first], tokens[at], *tokens[first:at], *tokens[at + 1 :]]
        elif (words[at - 1], ".") in pairs and ("ASOF", ".") not in pairs:
            raise SqlSyntaxError(ASOF, sql, *line_and_column(sql, tokens[at].start))
    return tokens


def _query(sql: str, tokens: list[Token], kind: Literal["select", "create_view", "explain"], **rest: Any) -> Statement:
    tokens = [_retag(tokens, index) for index in range(len(tokens))]
    _check_intervals(sql, tokens)
    if (refused := match_recognize(sql)) is not None:
        raise refused
    tokens = _with_asof(sql, tokens)
    try:
        trees = DIALECT.parser().parse(tokens, sql)
    except ParseError as error:
        raise _syntax_error(error, sql) from None
    except SqlglotError as error:
        raise SqlSyntaxError(str(error).splitlines()[0], sql, 1, 1) from None
    except RecursionError:
        raise SqlSyntaxError("the statement is nested too deeply", sql, 1, 1) from None
    if not any(trees):
        raise SqlSyntaxError("a query is missing", sql, *line_and_column(sql, len(sql.rstrip("; \t\r\n"))))
    if len(trees) != 1:
        start = next((t for t in tokens if t.token_type == TokenType.SEMICOLON), tokens[0])
        raise SqlSyntaxError("there is more than one statement", sql, *line_and_column(sql, start.start))
    if not isinstance(trees[0], exp.Query):
        return Statement("other")
    _check_is_sparks(sql, trees[0], tokens)
    markers = sorted(
        (m for m in trees[0].find_all(exp.Placeholder) if "start" in m.meta), key=lambda m: m.meta["start"]
    )
    for number, marker in enumerate(markers, 1):
        marker.set("this", positional_name(number))
    return Statement(kind, trees[0], positional=len(markers), **rest)


def _check_is_sparks(sql: str, tree: exp.Expr, tokens: list[Token]) -> None:
    """Raise for SQL of other systems, which sqlglot reads too."""
    curly = next((one for one in tokens if one.token_type not in QUOTED and re.search("[‘’“”]", one.text)), None)
    if curly is not None:
        word = re.sub("[‘’“”]", "", curly.text)
        detail = f"{curly.text} has typographic quotes; write '{word}'"
        raise SqlSyntaxError(detail, sql, *line_and_column(sql, curly.start))
    words = [one.text.upper() for one in tokens]
    if any(one.args.get("on") for one in tree.find_all(exp.Distinct)):
        at = next((at for at, pair in enumerate(pairwise(words)) if pair == ("DISTINCT", "ON")), 0)
        detail = "Spark has no DISTINCT ON; write max_by(x, ts) with GROUP BY, or NEAREST and ASOF for a join"
        raise SqlSyntaxError(detail, sql, *line_and_column(sql, tokens[at].start))
    if any(one.args.get("into") for one in tree.find_all(exp.Select)):
        at = words.index("INTO")
        detail = "Spark has no SELECT INTO; write INSERT INTO sink SELECT"
        raise SqlSyntaxError(detail, sql, *line_and_column(sql, tokens[at].start))
    if any(isinstance(dot.this, exp.Literal) and dot.this.is_string for dot in tree.find_all(exp.Dot)):
        at = next((one.start for one in tokens if sql[one.start] == '"'), 0)
        detail = "double quotes make texts in Spark; names are quoted with backticks"
        raise SqlSyntaxError(detail, sql, *line_and_column(sql, at))


def why_unreadable(sql: str, tree: exp.Expr) -> SqlSyntaxError | None:
    """Return what is wrong with a statement that sqlglot parsed, but not as SQL; None if nothing is wrong."""
    if any(i.args.get("unit") is None and not isinstance(i.this, exp.Literal) for i in tree.find_all(exp.Interval)):
        return SqlSyntaxError("an INTERVAL has no unit", sql, 1, 1)
    if any(isinstance(dot.this, exp.Literal) for dot in tree.find_all(exp.Dot)):
        return SqlSyntaxError("a literal has no fields", sql, 1, 1)
    text = render(tree)
    try:
        parse_statement(text)
    except SqlSyntaxError:
        return SqlSyntaxError("the text can only be parsed as something that is not SQL", sql, 1, 1)
    return None


def _retag(tokens: list[Token], index: int) -> Token:
    """Return a token, with another type if its word has another meaning in Spark than in sqlglot."""
    token = tokens[index]
    after = tokens[index + 1].token_type if index + 1 < len(tokens) else None
    word = token.text.upper()
    if token.token_type == TokenType.WINDOW and after == TokenType.L_PAREN:
        other = TokenType.VAR  # the function window(ts, '5 minutes')
    elif word == "TIMESTAMP" and [one.text.upper() for one in tokens[index + 1 : index + 4]] == _NO_ZONE:
        other = TokenType.TIMESTAMPNTZ
    elif word == "WITHIN" and token.token_type != TokenType.IDENTIFIER and after in _AFTER_WITHIN:
        other = WITHIN
    elif word == "MATCH_CONDITION" and after == TokenType.L_PAREN and _in_asof(tokens[:index]):
        other = TokenType.MATCH_CONDITION
    elif word in ("APPROX", "EXACT") and _begins_nearest(tokens[index + 1 : index + 5]):
        other = NEAREST
    else:
        return token
    return Token(other, token.text, token.line, token.col, token.start, token.end, token.comments)


def _in_asof(tokens: list[Token]) -> bool:
    """Tell whether tokens end behind the relation of an ASOF JOIN, which may have joins of its own in parentheses."""
    inside, after = 0, None
    for at in range(len(tokens) - 1, 0, -1):
        token = tokens[at]
        inside += {TokenType.R_PAREN: 1, TokenType.L_PAREN: -1}.get(token.token_type, 0)
        word = "" if inside or token.token_type in QUOTED else token.text.upper()
        if inside < 0 or (word == "MATCH_CONDITION" and after == TokenType.L_PAREN):  # that JOIN has one already
            return False
        if word == "JOIN":
            return tokens[at - 1].text.upper() == "ASOF"
        after = token.token_type
    return False


def _begins_nearest(tokens: list[Token]) -> bool:
    """Tell whether what follows APPROX or EXACT is ``NEAREST [k] BY {DISTANCE | SIMILARITY}``."""
    words = [token.text.upper() for token in tokens if token.token_type != TokenType.NUMBER]
    return words[:2] == ["NEAREST", "BY"] and words[2:3] in (["DISTANCE"], ["SIMILARITY"])


#: A function right behind a relation: an alias may have columns in parentheses, but no dot among them.
_WITHOUT_ON = re.compile(
    r"\bJOIN\s+[\w.`]+\s+(?:AS\s+\w+\s+)?(?!ON\b|USING\b|AS\b)(\w+)\s*\(\s*\w+\s*\.", re.IGNORECASE
)


def _missing(description: str, before: str, there: str) -> str:
    """Return what is said where the parser lacks an operand."""
    if description.endswith("Between'>"):
        return "BETWEEN takes two bounds, BETWEEN a AND b"
    return "=< is no comparison, write <=" if before.endswith("=") and there == "<" else "something is missing here"


def _meant(word: str) -> str | None:
    alike = (one for one in _CLAUSES if one[0] == word[:1].upper() and abs(len(one) - len(word)) < 2)
    return close(word, list(alike), 0.66)


def _syntax_error(error: ParseError, sql: str) -> SqlSyntaxError:
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line") or 1, first.get("col") or 1
    highlight = first.get("highlight") or " "
    before = (first.get("start_context") or "").split()[-1:]
    detail = (first.get("description") or "cannot be parsed").rstrip(".")
    if detail.startswith("Required keyword"):
        detail = _missing(detail, first.get("start_context") or "", highlight)
    elif detail == "Expecting )" and (bare := _WITHOUT_ON.search(sql)) is not None:
        detail = f"ON is missing before {bare[1]}"
        line, column, highlight = *line_and_column(sql, bare.start(1)), " "
    elif "<Token" in detail:
        detail = detail.split(" but got")[0].lower()
    elif detail.startswith("Invalid expression"):
        if "WITHIN" in (highlight.strip().upper(), *map(str.upper, before)):  # nothing here can begin a length of time
            detail = WITHIN_TAKES
        else:
            words = [word for word in (highlight.strip(), *before) if word.upper().removesuffix("S") not in _CLAUSES]
            slips = (f"; is {word} meant to be {best}?" for word in words if (best := _meant(word)))
            detail = f"{highlight.strip() or 'this'} was not expected here{next(slips, '')}"
    return SqlSyntaxError(detail, sql, line, max(1, column - len(highlight) + 1))
