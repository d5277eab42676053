"""The place in a statement of what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ...errors import SqlSyntaxError, UnsupportedQueryError
from ..plan.parts import Refusal
from .dialect import tokenize

#: A query in parentheses after one of these words is a table, not an expression.
_BEFORE_TABLES = ("FROM", "JOIN", "UNION", "ALL", "INTERSECT", "EXCEPT", "AS", ")", "")


def place_of(text: str, words: str) -> int | None:
    """Return the offset in a text of the first phrase (``A B|C``) that occurs in it, None if none does.

    Text inside ``OVER (...)`` and ``WITHIN GROUP (...)`` is left out, and so are queries in FROM for a phrase
    that begins with a parenthesis.

    Examples
    --------
    >>> place_of("SELECT max(x) OVER (ORDER BY y) FROM r ORDER BY x", "ORDER BY")
    39
    """
    if not words:
        return None
    try:
        tokens = tokenize(text)
    except SqlSyntaxError:
        return None
    plain = (token for token in tokens if text[token.start] not in "'\"`")
    found = list(_outside([(word.upper(), token.start) for token in plain for word in token.text.split()]))
    for phrase in (one.split() for one in words.split("|")):
        for at in range(len(found) - len(phrase) + 1):
            before = found[at - 1][0] if at else ""
            if [word for word, _ in found[at : at + len(phrase)]] != phrase:
                continue
            if phrase[0] != "(" or phrase[1:] == ["DISTINCT"] or before not in _BEFORE_TABLES:
                return found[at][1]
    return None


def placed(refused: Refusal | UnsupportedQueryError, text: str) -> UnsupportedQueryError:
    """Return a refusal as an error with the place of its subject in a statement's text."""
    at = place_of(text, refused.subject)
    return UnsupportedQueryError(refused.reason, refused.hint, text, at, subject=refused.subject)


def place_of_relation(text: str, alias: str) -> int | None:
    """Return the offset in a text of the name of a relation where FROM or JOIN introduces it, None if it does not.

    Examples
    --------
    >>> place_of_relation("SELECT r.x FROM readings AS r JOIN s ON r.x < s.x", "r")
    28
    """
    try:
        tokens = tokenize(text)
    except SqlSyntaxError:
        return None
    words = [token.text.upper() for token in tokens]
    joining = False  # whether we are in a FROM clause, where names of relations are made
    for at, (word, token) in enumerate(zip(words, tokens, strict=True)):
        joining = word in ("FROM", "JOIN") or (joining and word not in ("ON", "WHERE", "GROUP", "SELECT", "USING"))
        if joining and word == alias.upper() and words[at + 1 : at + 2] not in (["."], ["AS"]):
            return int(token.start)
    return None


def _outside(words: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Yield words with their places, except those in parentheses after OVER and GROUP."""
    depth = 0
    for (before, _), (word, start) in pairwise([("", 0), *words]):
        if depth or (word == "(" and before in ("OVER", "GROUP")):
            depth += (word == "(") - (word == ")")
            continue
        yield word, start
