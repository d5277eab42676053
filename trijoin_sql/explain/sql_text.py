"""SQL for reading: tokens to colour, and the places of the predicates of the join groups.

This is no parser. It knows Spark's lexical rules (strings, quoted identifiers, comments, numbers, operators) and finds
a predicate as a run of tokens, whatever its spacing, letter case, identifier quotes and redundant spellings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

TokenKind = Literal["comment", "string", "quoted", "number", "keyword", "word", "operator", "space"]

_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))
  | (?P<string>'(?:[^'\\]|\\.|'')*(?:'|\Z)|"(?:[^"\\]|\\.|"")*(?:"|\Z))
  | (?P<quoted>`(?:[^`]|``)*(?:`|\Z))
  | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[LSYDF])?)
  | (?P<word>[^\W\d]\w*)
  | (?P<operator><=>|<>|!=|==|<=|>=|\|\||::|->|=>|[^\w\s])
  | (?P<space>\s+)
    """,
    re.VERBOSE | re.DOTALL,
)
_KEYWORD = re.compile(
    r"(?:"
    r"all|and|anti|any|array|as|asc|between|by|case|cast|cluster|cross|current|date|delay|desc|distinct|"
    r"distribute|else|end|escape|except|exists|false|filter|following|for|from|full|group|having|if|in|"
    r"inner|insert|intersect|interval|into|is|join|last|lateral|left|like|limit|minus|natural|not|null|"
    r"nulls|of|offset|on|or|order|outer|over|partition|preceding|qualify|range|recursive|right|rlike|row|"
    r"rows|select|semi|set|sort|start|stream|table|tablesample|then|timestamp|to|true|unbounded|union|"
    r"unpivot|using|values|view|watermark|when|where|window|with|within"
    r")\Z",
    re.IGNORECASE,
)
_HINT = re.compile(r"/\*\+.*", re.DOTALL)
_SPELLINGS = {"!=": "<>", "==": "="}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<>": "<>", "<=>": "<=>"}
_BINDS_CLOSER = frozenset([".", "+", "-", "*", "/", "%", "||", "::"])
_TIME_UNIT = re.compile(r"(microsecond|millisecond|second|minute|hour|day|week|month|year)s?\Z")


@dataclass(frozen=True, slots=True)
class Token:
    """A token and where it starts."""

    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where the next token starts."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Span:
    """The characters ``start`` up to ``end`` of the SQL, where predicate ``key`` stands."""

    start: int
    end: int
    key: int


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of SQL: tokens to colour, inside the predicate ``key`` or, if None, outside of all predicates."""

    key: int | None
    tokens: tuple[Token, ...]


def tokens(sql: str) -> list[Token]:
    """Return all tokens of a text, including white space; together they are the text."""
    found: list[Token] = []
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup
        text = match.group()
        if kind == "word" and _KEYWORD.match(text) and not (found and found[-1].text == "."):
            kind = "keyword"
        found.append(Token(kind, text, match.start()))  # type: ignore[arg-type]
    return found


def locate(sql: str, predicates: Sequence[str]) -> list[Span]:
    """Find predicates in a text.

    Parameters
    ----------
    sql
        The text.
    predicates
        Predicates, as SQL. A place is used once, by the first predicate that it matches.

    Returns
    -------
    list of Span
        In the order of the text, without overlaps; ``key`` is the predicate's position in ``predicates``.
    """
    words = _words(tokens(sql))
    taken: list[Span] = []
    for key, predicate in sorted(enumerate(predicates), key=lambda item: -len(item[1])):
        span = _find(words, predicate, key, taken)
        if span:
            taken.append(span)
    return sorted(taken, key=lambda span: span.start)


def pieces(sql: str, spans: Sequence[Span]) -> Iterator[Piece]:
    """Yield a text in pieces, cut at the ends of the spans that `locate` found."""
    run: list[Token] = []
    current: Span | None = None
    waiting = list(spans)
    for token in tokens(sql):
        if current and token.start >= current.end:
            yield Piece(current.key, tuple(run))
            run, current = [], None
        if waiting and token.start == waiting[0].start:
            if run:
                yield Piece(None, tuple(run))
            run, current = [], waiting.pop(0)
        run.append(token)
    if run:
        yield Piece(current.key if current else None, tuple(run))


def is_hint(token: Token) -> bool:
    """Return whether a comment is a hint."""
    return token.kind == "comment" and _HINT.match(token.text) is not None


def _words(found: Sequence[Token]) -> list[tuple[str, Token]]:
    """Return the significant tokens, each with its normal form."""
    words: list[tuple[str, Token]] = []
    for token in found:
        match token.kind:
            case "space" | "comment":
                continue
            case "quoted":
                text = token.text.strip("`").replace("``", "`").lower()
            case "keyword" if token.text.lower() == "interval" and words and words[-1][0] == "within":
                continue  # WITHIN INTERVAL 10 MINUTES is WITHIN 10 MINUTES
            case "string" if words and words[-1][0] in ("interval", "within"):
                text = token.text[1:-1].strip().lower()  # INTERVAL '5' MINUTES is INTERVAL 5 MINUTES
            case "string":
                text = "'" + token.text[1:-1]
            case _:
                text = token.text.lower()
                text = _TIME_UNIT.sub(r"\1", _SPELLINGS.get(text, text))
        words.append((text, token))
    return words


def _find(words: list[tuple[str, Token]], predicate: str, key: int, taken: Sequence[Span]) -> Span | None:
    wanted = [text for text, _ in _words(tokens(predicate))]
    for variant in _variants(wanted):
        for bare in (False, True):  # first with the parentheses, then without
            pattern = [text for text in variant if not (bare and text in "()")]
            line = [word for word in words if not (bare and word[0] in "()")]
            span = _search(words, line, pattern, key, taken)
            if span:
                return span
    return None


def _variants(wanted: list[str]) -> Iterator[list[str]]:
    yield wanted
    depth, places = 0, []
    for i, text in enumerate(wanted):
        depth += (text == "(") - (text == ")")
        if depth == 0 and text in _MIRRORED:
            places.append(i)
    if len(places) == 1:
        (at,) = places
        yield [*wanted[at + 1 :], _MIRRORED[wanted[at]], *wanted[:at]]


def _search(
    everything: Sequence[tuple[str, Token]],
    line: Sequence[tuple[str, Token]],
    pattern: list[str],
    key: int,
    taken: Sequence[Span],
) -> Span | None:
    length = len(pattern)
    texts = [text for text, _ in line]
    for i in range(len(line) - length + 1 if length else 0):
        if texts[i : i + length] != pattern:
            continue
        if _BINDS_CLOSER.intersection([*texts[max(i - 1, 0) : i], *texts[i + length : i + length + 1]]):
            continue  # only a part of a larger expression
        span = _balanced(everything, line[i][1], line[i + length - 1][1], key)
        if all(span.end <= other.start or span.start >= other.end for other in taken):
            return span
    return None


def _balanced(everything: Sequence[tuple[str, Token]], first: Token, last: Token, key: int) -> Span:
    """Return the span from one token to another, widened to balance its parentheses."""
    at = {token.start: i for i, (_, token) in enumerate(everything)}
    low, high = at[first.start], at[last.start]
    depth = lowest = 0
    for text, _ in everything[low : high + 1]:
        depth += (text == "(") - (text == ")")
        lowest = min(lowest, depth)
    for _ in range(-lowest):
        low -= bool(low and everything[low - 1][0] == "(")
    for _ in range(depth - lowest):
        high += bool(high + 1 < len(everything) and everything[high + 1][0] == ")")
    return Span(everything[low][1].start, everything[high][1].end, key)
