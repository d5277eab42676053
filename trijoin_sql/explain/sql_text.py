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
#: Words of Spark's SQL and of ours that are coloured, and offered in the shell.
KEYWORDS = (  # noqa: SIM905 (a list would take a hundred lines)
    "ALL ALTER AND ANTI ANY APPEND ARRAY AS ASC ASOF AVAILABLE BETWEEN BY CACHE CASE CAST CLUSTER COMPLETE CREATE "
    "CROSS CURRENT DATE DELAY DESC DESCRIBE DISTINCT DISTRIBUTE DROP ELSE END ESCAPE EXCEPT EXISTS EXPLAIN EXTENDED "
    "FALSE FILTER FOLLOWING FOR FORMATTED FROM FULL GROUP HAVING HOURS IF IN INNER INSERT INTERSECT INTERVAL INTO "
    "IS JOIN JSON LAST LATE LATERAL LEFT LIKE LIMIT MATCH_CONDITION MERMAID MINUS MINUTES MODE NATURAL NEAREST NOT "
    "NOW NULL NULLS OF OFFSET ON OPTIONS OR ORDER OUTER OVER PARTITION PRECEDING PROCESSING QUALIFY RANGE RECURSIVE "
    "REPLACE RIGHT RLIKE ROW ROWS SECONDS SELECT SEMI SET SHOW SINK SORT START STREAM TABLE TABLES TABLESAMPLE "
    "TEMPORARY THEN TIME TIMESTAMP TO TRIGGER TRUE UNBOUNDED UNION UNPIVOT UPDATE USING VALUES VIEW WATERMARK WHEN "
    "WHERE WINDOW WITH WITHIN"
).split()
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
        if kind == "word" and text.upper() in KEYWORDS and not (found and found[-1].text == "."):
            kind = "keyword"
        found.append(Token(kind, text))  # type: ignore[arg-type]
    return found


def is_hint(token: Token) -> bool:
    """Return whether a comment is a hint."""
    return token.kind == "comment" and _HINT.match(token.text) is not None
