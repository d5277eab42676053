"""Our SQL: Spark 4.3's, plus WITHIN and our hints. `statement` reads what stands around a query.

The base is sqlglot's ``databricks`` dialect, because ``spark`` reads ``STREAM t`` as a table named STREAM. Functions
are not interpreted: a call is rendered as it was written, so that only Spark decides what it means.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.databricks import Databricks
from sqlglot.errors import TokenError
from sqlglot.generators.databricks import DatabricksGenerator
from sqlglot.tokenizer_core import Token, TokenType

from ...errors import SqlSyntaxError, line_and_column
from .intervals import interval_microseconds
from .precedence import SparkPrecedence
from .type_names import TYPES, no_type

#: Functions whose first argument is a unit, not a column.
UNIT_FUNCTIONS = ("TIMESTAMPADD", "TIMESTAMPDIFF", "DATEADD", "DATE_ADD", "DATEDIFF", "DATE_DIFF")

# WITHIN is not a keyword of sqlglot; where it starts our clause, its token gets the type of a clause unknown to Spark.
WITHIN = TokenType.PREWHERE

WITHIN_TAKES = "WITHIN takes a length of time such as 10 MINUTES"

# The same of NEAREST, which sqlglot would take for the alias of the relation before it.
NEAREST = TokenType.SOUNDS_LIKE

_SPECIAL_FORMS = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "SUBSTR", "OVERLAY")

#: Side and kind of Spark's joins, and of its ASOF JOIN: sqlglot reads those of other engines, too.
_INNER_OR_LEFT = {("", ""), ("", "INNER"), ("LEFT", ""), ("LEFT", "OUTER")}
_OTHERS = {("", "CROSS"), ("", "SEMI"), ("", "ANTI"), ("LEFT", "SEMI"), ("LEFT", "ANTI")}
_JOINS = (
    _INNER_OR_LEFT | _OTHERS | {(side, kind) for side in ("RIGHT", "FULL") for kind in ("", "OUTER")},
    _INNER_OR_LEFT,
)

#: Points in time that a typed literal may name, but since Spark 3.2 not a cast.
_SPECIAL_TIMES = ("epoch", "now", "today", "yesterday", "tomorrow")

_TIMES = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPNTZ)


class Watermark(exp.Expression):
    """``WATERMARK column DELAY OF interval``, Spark 4.3's clause after a relation."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "alias": False, "delay": True}


class Nearest(exp.Expression):
    """``[APPROX | EXACT] NEAREST [k] BY {DISTANCE | SIMILARITY} expression``, Spark 4.2's clause after a relation."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "approximate": True, "count": True, "similarity": True}


def _unit_function(name: str) -> Callable[[list[Any]], exp.Expr]:
    def build(args: list[Any]) -> exp.Expr:
        first = args[0] if args else None
        if len(args) == 3 and isinstance(first, exp.Column) and not first.table:
            args = [exp.Var(this=first.name), *args[1:]]
        return exp.Anonymous(this=name, expressions=args)

    return build


def _typed_literal(literal: exp.Expr, kind: exp.Expr) -> exp.Expr:
    cast = exp.Cast(this=literal, to=kind)
    if literal.name.strip().lower() in _SPECIAL_TIMES:
        cast.meta["literal"] = f"{kind.sql(DIALECT)} '{literal.name}'"
    return cast


class TriJoinSql(Databricks):
    """The dialect; use `parse_statement`, `parse_expression` and `render`."""

    class Tokenizer(Databricks.Tokenizer):
        """Since Spark 4.0 a doubled quote inside a string is one quote."""

        COMMANDS: ClassVar[set[TokenType]] = set()  # otherwise EXPLAIN would swallow the rest of the text
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    class Parser(SparkPrecedence):
        """Adds WATERMARK and WITHIN, and does not interpret functions."""

        #: With ``ON TRUE`` Spark no longer folds a LATERAL subquery of one row into its expressions.
        ADD_JOIN_ON_TRUE: ClassVar[bool] = False
        SUPPORTS_DIRECTED_JOIN = False
        FUNCTIONS: ClassVar[dict[str, Any]] = {
            **{name: _unit_function(name) for name in UNIT_FUNCTIONS},
            "ARRAY": exp.Array.from_arg_list,  # as a plain call, its subscript would be read as a literal
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: SparkPrecedence.FUNCTION_PARSERS[name] for name in _SPECIAL_FORMS
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: SparkPrecedence.NO_PAREN_FUNCTION_PARSERS[name] for name in ("ANY", "CASE", "IF")
        }
        QUERY_MODIFIER_PARSERS: ClassVar[dict[TokenType, Any]] = {
            **SparkPrecedence.QUERY_MODIFIER_PARSERS,
            WITHIN: lambda self: ("within", self._parse_within()),
        }
        # `DATE 'today'`: CAST knows no special values
        TYPE_LITERAL_PARSERS: ClassVar[dict[exp.DType, Any]] = {
            **SparkPrecedence.TYPE_LITERAL_PARSERS,
            **dict.fromkeys((exp.DType.DATE, *_TIMES), lambda self, this, kind: self._parse_day(this, kind)),
        }
        QUERY_MODIFIER_TOKENS: ClassVar[set[TokenType]] = set(QUERY_MODIFIER_PARSERS)
        PLACEHOLDER_PARSERS: ClassVar[dict[TokenType, Any]] = {
            **SparkPrecedence.PLACEHOLDER_PARSERS,
            TokenType.PLACEHOLDER: lambda self: self._parse_positional(),
        }

        def _parse_disjunction(self) -> exp.Expr | None:
            start = self._curr.start
            return self._placed(super()._parse_disjunction(), start)

        def _parse_equality(self, parse_is: bool = True) -> exp.Expr | None:
            start = self._curr.start
            return self._placed(super()._parse_equality(parse_is), start)

        def _placed(self, tree: exp.Expr | None, start: int) -> exp.Expr | None:
            """Note where a condition stands in the text: what it is compared to and combined with comes later."""
            if tree is not None and not isinstance(tree, exp.Column | exp.Literal | exp.Star):
                tree.meta["place"] = start, self._prev.end + 1
            return tree

        def _parse_day(self, literal: exp.Expr, kind: exp.Expr) -> exp.Expr:
            day = re.match(r"\s*(\d{4})-(\d{1,2})(?:-(\d{1,2})(?=\D|$))?", literal.name)
            if day is not None:
                try:
                    datetime.date(*(int(part or 1) for part in day.groups()))
                except ValueError:
                    self.raise_error(f"'{literal.name}' is no {kind.sql(dialect='spark')}", self._prev)
            return _typed_literal(literal, kind)

        def _parse_types(self, check_func: bool = False, *args: Any, **kwargs: Any) -> Any:
            """Read a type: sqlglot also reads those of other engines, each as the nearest one of Spark's."""
            first = self._curr
            found = super()._parse_types(check_func, *args, **kwargs)
            suffix = first.text.upper() in TriJoinSql.Tokenizer.NUMERIC_LITERALS  # of a number, such as 2L
            if found is not None and not check_func and not suffix and first.text.split()[0].lower() not in TYPES:
                self.raise_error("; ".join(no_type(first.text)), first)
            return found

        def _parse_bracket(self, this: Any = None) -> Any:
            if this is None and self._curr.token_type == TokenType.L_BRACKET:
                self.raise_error("[ begins nothing here; names are quoted with backticks", self._curr)
            return super()._parse_bracket(this)

        def _parse_positional(self) -> exp.Expr:
            marker = exp.Placeholder()
            marker.meta["start"] = self._prev.start
            return marker

        def _parse_value(self, values: bool = True) -> Any:
            """Read a row of VALUES; after one without parentheses stands the alias of the table, not its own."""
            if self._match(TokenType.L_PAREN, advance=False):
                return super()._parse_value(values)
            only = self._parse_disjunction()
            return only and exp.Tuple(expressions=[only])

        def _parse_within(self) -> Any:
            start = self._curr.start
            self._advance()
            at = self._curr
            if self._curr.token_type == TokenType.INTERVAL:
                length: Any = self._parse_interval()
            else:
                self._advance()
                number = self._prev.text
                unit = self._curr.text.upper() if self._curr else ""
                if unit:
                    self._advance()
                length = exp.Interval(this=exp.Literal.string(number), unit=exp.Var(this=unit))
            micros = interval_microseconds(length)
            if micros is None or micros < 0:
                self.raise_error(WITHIN_TAKES, at)
            return self._placed(length, start)

        def _parse_wrapped(self, parse_method: Any, optional: bool = False) -> Any:
            if self._prev.token_type == TokenType.MATCH_CONDITION:  # sqlglot reads an operand of our comparisons
                parse_method = self._parse_disjunction
            return super()._parse_wrapped(parse_method, optional)

        def _parse_nearest(self) -> Nearest:
            approximate = self._prev.text.upper() == "APPROX"
            self._match_text_seq("NEAREST")
            count = self._prev.text if self._match(TokenType.NUMBER) else "1"
            if not count.isdigit() or not int(count):
                self.raise_error("NEAREST takes a number of rows, 1 or more", self._prev)
            self._match_text_seq("BY")
            similarity = bool(self._match_text_seq("SIMILARITY"))
            if not similarity:
                self._match_text_seq("DISTANCE")
            return Nearest(
                this=self._parse_disjunction(), approximate=approximate, count=int(count), similarity=similarity
            )

        def _parse_table_alias(self, alias_tokens: Any = None) -> Any:
            clause = None
            if self._curr.text.upper() == "WATERMARK" and self._next.token_type not in (
                TokenType.COMMA,
                TokenType.JOIN,
                TokenType.ON,
            ):
                index = self._index
                self._advance()
                column = self._parse_assignment()
                name = self._parse_id_var() if self._match(TokenType.ALIAS) else None
                if column and self._match_text_seq("DELAY", "OF"):
                    delay = self._parse_interval()
                    clause = Watermark(this=column, alias=name, delay=delay.unnest() if delay else None)
                else:
                    self._retreat(index)
            alias = super()._parse_table_alias(alias_tokens)
            if clause:
                alias = alias or exp.TableAlias()
                alias.set("watermark", clause)
            return alias

        def _parse_join(self, *args: Any, **kwargs: Any) -> Any:
            first, comma = self._curr, self._curr.token_type == TokenType.COMMA
            join = super()._parse_join(*args, **kwargs)
            if join is not None and comma:
                join.meta["comma"] = True
            elif join is not None and (join.side, join.kind) not in _JOINS[join.method == "ASOF"]:
                words = " ".join(filter(None, (join.method, join.side, join.kind)))
                self.raise_error(f"Spark has no {words} join", first)
            if join is not None and self._match(NEAREST):
                plain = join.side in ("", "LEFT") and join.kind in ("", "INNER", "OUTER", "CROSS")
                if comma or not plain or join.method == "ASOF":
                    self.raise_error("NEAREST ends a JOIN or a LEFT JOIN, and no other", self._prev)
                join.set("nearest", self._parse_nearest())
            if join is not None and join.this.args.get("joins"):  # ``r JOIN s JOIN t ON ... ON ...``
                self.raise_error("a join inside a join stands in parentheses")
            return join

    class Generator(DatabricksGenerator):
        """Renders Spark 4.3's SQL."""

        # Hive's generator moves inner common table expressions to the top, where two of the same name would become one.
        EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[set[type[exp.Expr]]] = set()

        TRANSFORMS: ClassVar[dict[Any, Any]] = {
            **{k: v for k, v in DatabricksGenerator.TRANSFORMS.items() if k not in (exp.Select, exp.With, exp.Create)},
            exp.NullSafeEQ: lambda self, e: self.binary(e, "<=>"),
            exp.NullSafeNEQ: lambda self, e: f"NOT ({self.binary(e, '<=>')})",
            Nearest: lambda self, e: (
                f"{'APPROX' if e.args['approximate'] else 'EXACT'} NEAREST {e.args['count']} BY "
                f"{'SIMILARITY' if e.args['similarity'] else 'DISTANCE'} {self.sql(e, 'this')}"
            ),
            Watermark: lambda self, e: (
                f"WATERMARK {self.sql(e, 'this')}"
                + (f" AS {self.sql(e, 'alias')}" if e.args.get("alias") else "")
                # sqlglot writes `1 HOUR 30 MINUTES` as a sum, which Spark does not read here
                + f" DELAY OF {self.sql(e, 'delay').replace(' + INTERVAL ', ' ')}"
            ),
        }

        def join_sql(self, expression: exp.Join, *args: Any, **kwargs: Any) -> str:
            closest = closest_of(expression)
            if closest is None:
                return super().join_sql(expression, *args, **kwargs)
            # Spark has the words in another order than sqlglot, of which only newer versions know NEAREST.
            clause, word = self.sql(closest), "JOIN"
            if not isinstance(closest, Nearest):
                clause, word = f"MATCH_CONDITION ({clause})", "ASOF JOIN"
            words = " ".join(filter(None, (expression.side, word)))
            on, using = self.sql(expression, "on"), expression.args.get("using")
            behind = f" ON {on}" if on else f" USING ({', '.join(map(self.sql, using))})" if using else ""
            return f"{self.seg(words)} {self.sql(expression, 'this')} {clause}{behind}"

        TYPE_MAPPING: ClassVar[dict[exp.DType, str]] = {**DatabricksGenerator.TYPE_MAPPING, exp.DType.TIME: "TIME"}

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            literal: str | None = expression.meta.get("literal")
            if literal is not None:
                return literal
            return super().cast_sql(expression, safe_prefix)

        def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
            return self._watermarked(expression, lambda bare: super(type(self), self).table_sql(bare, sep), sep)

        def subquery_sql(self, expression: exp.Subquery, sep: str = " AS ") -> str:
            return self._watermarked(expression, lambda bare: super(type(self), self).subquery_sql(bare, sep), sep)

        def _watermarked(self, relation: exp.Expr, render: Callable[[Any], str], sep: str) -> str:
            alias = relation.args.get("alias")
            clause = alias.args.get("watermark") if alias else None
            if alias is None or clause is None:
                return render(relation)
            bare = relation.copy()
            bare.set("alias", None)
            name = alias.copy()
            name.set("watermark", None)
            return f"{render(bare)} {self.sql(clause)}" + (f"{sep}{self.sql(name)}" if alias.this else "")


DIALECT = TriJoinSql()


def closest_of(join: exp.Join) -> exp.Expr | None:
    """Return what says which partners are the closest ones: the condition of an ASOF JOIN, or the clause NEAREST."""
    found: exp.Expr | None = join.args.get("match_condition") or join.args.get("nearest")
    return found


def places_of(tree: exp.Expr) -> tuple[tuple[int, int], ...]:
    """Return where a condition of a statement stands: from the start of its first token to the end of its last one."""
    place: tuple[int, int] | None = tree.meta.get("place")
    return () if place is None else (place,)


def tokenize(sql: str) -> list[Token]:
    """Split SQL text into tokens.

    Raises
    ------
    SqlSyntaxError
        A string, an identifier or a comment has no end.
    """
    try:
        return list(DIALECT.tokenize(sql))
    except TokenError as error:
        found = re.match(r"Missing (\S+) from \d+:(\d+)", str(error.__cause__))
        sign, start = (found[1], int(found[2])) if found else ("*/", max(0, sql.rfind("/*")))
        raise SqlSyntaxError(f"a closing {sign} is missing", sql, *line_and_column(sql, start)) from None


@lru_cache(maxsize=1024)  # a tree takes 12 KB
def parse_expression(sql: str) -> exp.Expr:
    """Parse one expression over qualified columns. The result is shared: copy it before you change it.

    ``r.point.x`` is the field ``x`` of the column ``point`` of ``r``, never a column of a table in a database.
    """
    tree = DIALECT.parse_into(exp.Condition, sql)[0] or exp.Null()
    for column in [node for node in tree.find_all(exp.Column) if node.args.get("db")]:
        parts = column.parts
        nested: exp.Expr = exp.Column(this=parts[1].copy(), table=parts[0].copy())
        for part in parts[2:]:
            nested = exp.Dot(this=nested, expression=part.copy())
        if column is tree:
            return nested
        column.replace(nested)
    return tree


def render(tree: exp.Expr) -> str:
    """Render a tree as Spark SQL on one line."""
    keep = isinstance(tree, exp.Query | exp.From | exp.Table)  # rendering may change these trees
    return tree.sql(DIALECT, normalize_functions=False, comments=False, copy=keep)


def quote(name: str) -> str:
    """Return a name as an SQL identifier, quoted if needed."""
    return render(identifier(name))


def identifier(name: str) -> exp.Identifier:
    """Return a name as an identifier node, quoted if needed."""
    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is not None
    return exp.Identifier(this=name, quoted=not plain or name.upper() in _KEYWORDS)


_KEYWORDS = frozenset(
    word for word in TriJoinSql.Tokenizer.KEYWORDS if re.fullmatch(r"[A-Z_]+", word) and word not in ("TS", "KEY", "ID")
) | {"ANTI", "SEMI", "MINUS", "LATERAL", "WATERMARK", "WITHIN", "ONLY", "TIME", "USER", "SOME", "BOTH", "LEADING"}
