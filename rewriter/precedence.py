"""How tightly Spark's operators bind, where sqlglot's parser has it otherwise.

From loose to tight: predicates (``IN``, ``BETWEEN``, ``LIKE``, ``IS``), all comparisons alike from left to right,
``|``, ``^``, ``&``, shifts, ``+`` with ``-`` and ``||``.
What sqlglot puts the other way round gets parentheses, so that the text of a tree says the same to both: ``a = b < c``
is ``(a = b) < c``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.parsers.databricks import DatabricksParser
from sqlglot.tokenizer_core import TokenType

#: Of numbers' bits, the loosest first.
_BITS: tuple[tuple[TokenType, type[exp.Binary]], ...] = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)


class SparkPrecedence(DatabricksParser):
    """The part of the parser that reads operators."""

    EQUALITY: ClassVar[dict[TokenType, Any]] = {**DatabricksParser.EQUALITY, **DatabricksParser.COMPARISON}
    COMPARISON: ClassVar[dict[TokenType, Any]] = {}
    TERM: ClassVar[dict[TokenType, Any]] = {**DatabricksParser.TERM, TokenType.DPIPE: exp.DPipe}

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        this = self._parse_bitwise()
        while this is not None:
            compared = type(this) in self.EQUALITY.values()
            operand = exp.Paren(this=this) if compared else this
            index = self._index
            if self._match_set(self.EQUALITY):
                kind, comments = self.EQUALITY[self._prev.token_type], self._prev_comments
                this = self._build_predicate(kind, operand, self._parse_bitwise(), comments=comments)
                continue
            found = self._parse_range(operand, parse_is=parse_is)
            if self._index == index:
                break
            this = found
        return this

    def _parse_bitwise(self, level: int = 0) -> exp.Expr | None:
        if level == len(_BITS):
            return self._parse_shift()
        token, kind = _BITS[level]
        this = self._parse_bitwise(level + 1)
        while self._match(token):
            this = self.expression(kind(this=this, expression=self._parse_bitwise(level + 1)))
        return this

    def _parse_shift(self) -> exp.Expr | None:
        this = self._parse_term()
        while True:
            if self._match_pair(TokenType.LT, TokenType.LT):
                this = self.expression(exp.BitwiseLeftShift(this=this, expression=self._parse_term()))
            elif not self._match_pair(TokenType.GT, TokenType.GT):
                return this
            elif self._match(TokenType.GT):
                operands = [this, self._parse_term()]
                this = self.expression(exp.Anonymous(this="shiftrightunsigned", expressions=operands))
            else:
                this = self.expression(exp.BitwiseRightShift(this=this, expression=self._parse_term()))
