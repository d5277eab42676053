"""SQL for reading: tokens to colour, by Spark's lexical rules (strings, quoted identifiers, comments, numbers).

It is not the parser's tokenizer, which leaves out comments and white space, and needs sqlglot.
"""

from __future__ import annotations

import re
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


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text."""

    kind: TokenKind
    text: str


def tokens(sql: str) -> list[Token]:
    """Return all tokens of a text, including white space; together they are the text."""
    found: list[Token] = []
    for match in _TOKEN.finditer(sql):
        kind = match.lastgroup
        text = match.group()
        if kind == "word" and _KEYWORD.match(text) and not (found and found[-1].text == "."):
            kind = "keyword"
        found.append(Token(kind, text))  # type: ignore[arg-type]
    return found


def is_hint(token: Token) -> bool:
    """Return whether a comment is a hint."""
    return token.kind == "comment" and _HINT.match(token.text) is not None
