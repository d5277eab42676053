"""The precedence of Spark's operators, where sqlglot's parser differs.

From loose to tight: predicates (``IN``, ``BETWEEN``, ``LIKE``, ``IS``), all comparisons alike from left to right,
``|``, ``^``, ``&``, shifts, ``+`` with ``-`` and ``||``.
Where sqlglot differs, the tree gets parentheses, so that its text has the same meaning for both: ``a = b < c``
is ``(a = b) < c``.
"""

from __future__ import annotations

from decimal import InvalidOperation
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.parsers.databricks import DatabricksParser
from sqlglot.tokenizer_core import TokenType

#: Operators on bits, the loosest first.
_BITS: tuple[tuple[TokenType, type[exp.Binary]], ...] = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)


#: The suffix of a number that gives its type. Beside decimals, Spark uses the value of such a literal, but the type
#: of a cast.
SUFFIXES = {suffix: kind for suffix, kind in Databricks.Tokenizer.NUMERIC_LITERALS.items() if suffix != "BD"}


#: Since sqlglot 30.24, what IS and <=> compare is put in parentheses by a method, and IS is left out on request.
_SPLITS_IS = hasattr(DatabricksParser, "_build_predicate")


class SparkPrecedence(DatabricksParser):
    """The part of the parser that reads operators, signs and intervals of several parts."""

    EQUALITY: ClassVar[dict[TokenType, Any]] = {**DatabricksParser.EQUALITY, **DatabricksParser.COMPARISON}
    COMPARISON: ClassVar[dict[TokenType, Any]] = {}
    TERM: ClassVar[dict[TokenType, Any]] = {**DatabricksParser.TERM, TokenType.DPIPE: exp.DPipe}

    UNARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        **DatabricksParser.UNARY_PARSERS,
        # for Spark an operator: it makes a number from a text
        TokenType.PLUS: lambda self: exp.Anonymous(this="positive", expressions=[self._parse_unary()]),
        TokenType.DASH: lambda self: self._parse_negative(),
    }

    def _parse_negative(self) -> exp.Expr | None:
        """Read what follows a minus: the sign belongs to a number, as in ``-1::string``."""
        if not self._match(TokenType.NUMBER, advance=False):
            return self.expression(exp.Neg(this=self._parse_unary()))
        number = self._parse_primary()
        index = self._index
        if self._match(TokenType.DCOLON):
            kind = Databricks.Tokenizer.NUMERIC_LITERALS.get(self._curr.text.upper())
            if kind is None:
                self._retreat(index)
            else:
                self._advance()
                number = self.build_cast(strict=True, this=number, to=exp.DataType.build(kind))
        negative = self.expression(exp.Neg(this=number))
        if self._match(TokenType.DCOLON, advance=False):
            return self._parse_column_ops(exp.Paren(this=negative))
        return negative

    def build_cast(self, strict: bool, **kwargs: Any) -> Any:
        """Make a cast; a cast from a literal with a suffix remembers the suffix."""
        suffix = self._prev
        try:
            cast = super().build_cast(strict, **kwargs)
        except InvalidOperation:  # as in ``. 1.5BD``
            self.raise_error("BD is the suffix of a number", suffix)
        if isinstance(cast.this, exp.Literal) and not cast.this.is_string and self._prev.text.upper() in SUFFIXES:
            cast.meta["literal"] = f"{cast.this.name}{self._prev.text.upper()}"
        return cast

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        """Read an interval; several parts become a sum in parentheses."""
        total: exp.Expr | None = self._parse_interval_part(require_interval, parse_function_unit)
        if total is None:
            return None
        while self._match_set((TokenType.STRING, TokenType.NUMBER), advance=False):
            part = self._parse_interval_part(False, parse_function_unit)
            if part is None:
                break
            total = exp.Add(this=total, expression=part)
        return exp.Paren(this=total) if isinstance(total, exp.Add) else total

    def _parse_interval_part(self, require_interval: bool, parse_function_unit: bool) -> exp.Expr | None:
        index = self._index
        if not self._match(TokenType.INTERVAL) and require_interval:
            return None
        is_text = self._match(TokenType.STRING, advance=False)
        this = self._parse_primary() if is_text else self._parse_term()
        # a column named interval
        is_name = isinstance(this, exp.Column) and not this.table and not this.this.quoted
        known_unit = self._curr is not None and self._curr.text.upper() in self.dialect.VALID_INTERVAL_UNITS
        if this is None or (is_name and self._curr is not None and not known_unit):
            self._retreat(index)
            return None
        part: exp.Expr = self._parse_interval_span(this, parse_function_unit=parse_function_unit)
        return part

    def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
        this = self._parse_bitwise()
        while this is not None:
            compared = type(this) in self.EQUALITY.values()
            operand = exp.Paren(this=this) if compared else this
            index = self._index
            if self._match_set(self.EQUALITY):
                kind, comments = self.EQUALITY[self._prev.token_type], self._prev_comments
                right = self._parse_bitwise()
                if _SPLITS_IS:
                    this = self._build_predicate(kind, operand, right, comments=comments)
                else:
                    this = self.expression(kind(this=operand, expression=right), comments=comments)
                continue
            found = self._parse_range(operand, **({"parse_is": parse_is} if _SPLITS_IS else {}))
            if self._index == index:
                this.parent = None  # nothing follows that would need the parentheses
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
