"""What the two readers of declarations have in common: those of an SQL file, and those of a job, which are stricter."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

QUOTED = (TokenType.STRING, TokenType.RAW_STRING, TokenType.HEREDOC_STRING, TokenType.IDENTIFIER)


class TokenReader(ABC):
    """Reads one statement, token by token; those who inherit say in their own words what is wrong.

    Parameters
    ----------
    tokens
        Those of the statement.
    position
        Where reading begins.
    """

    #: Words that no length of time goes on with.
    ends: tuple[str, ...] = ()

    def __init__(self, tokens: list[Token], position: int = 0) -> None:
        self.tokens, self.position = tokens, position

    @abstractmethod
    def ended(self, what: str) -> NoReturn:
        """Raise: the statement ends where something is expected."""

    @abstractmethod
    def missing(self, word: str) -> NoReturn:
        """Raise: a word of WATERMARK is missing."""

    def word(self, ahead: int = 0) -> str:
        """Return the next word in capitals, empty at the end; what is quoted is no word."""
        if self.position + ahead >= len(self.tokens):
            return ""
        token = self.tokens[self.position + ahead]
        return "'" if token.token_type in QUOTED else token.text.upper()

    def take(self, what: str = "something") -> Token:
        """Read the next token."""
        if self.position >= len(self.tokens):
            self.ended(what)
        self.position += 1
        return self.tokens[self.position - 1]

    def to_comma(self) -> list[Token]:
        """Read up to a comma or a closing parenthesis at this depth, which stays, or to the end."""
        first, depth = self.position, 0
        while (word := self.word()) and (depth or word not in (",", ")")):
            depth += nesting(word)
            self.position += 1
        return self.tokens[first : self.position]

    def delay(self) -> tuple[Token, str]:
        """Read what is behind the column of WATERMARK, ``DELAY OF INTERVAL 10 SECONDS``; return it as `length` does."""
        for word in ("DELAY", "OF", "INTERVAL"):
            if self.word() != word:
                self.missing(word)
            self.position += 1
        return self.length()

    def length(self) -> tuple[Token, str]:
        """Read ``10 SECONDS``, ``'10' SECONDS`` or ``'1 hour 30 minutes'``; return its first token, and its text."""
        first = self.take("a length of time")
        words = [first.text]
        while self.word() not in ("", *self.ends) and (
            _is_number(words[-1]) or _is_number(self.tokens[self.position].text)
        ):
            words.append(self.take().text)
        return first, " ".join(words)


def nesting(word: str) -> int:
    """Return by how much a word of a type deepens its nesting; ``>>`` ends two."""
    return (word in ("(", "<", "[")) - sum(word.count(char) for char in ")>]")


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", text) is not None
