"""GROUP BY and aggregates over a join, in two steps: states that units can keep, and SQL that merges the states.

``COUNT``, ``SUM``, ``MIN``, ``MAX`` and ``AVG`` are taken apart; whatever else a SELECT does with them (expressions,
HAVING, ORDER BY) stays in its text. The merging SQL has exactly the type that Spark gives the aggregate. An expression
below the join is computed for rows that may not join, so an expression moves there only if it cannot raise an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp

from ..names.scopes import field_of, typed
from ..plan.comparison import decimal_digits, sum_type
from ..plan.conjuncts import Term
from ..plan.expr import Call
from ..plan.parts import Aggregation, GroupKey, PartialState
from ..sql.dialect import parse_expression, render
from ..sql.failing import may_fail
from ..sql.functions import AGGREGATES, PARTS_OF_DATES, PURE, SCALARS, called, read_anew
from ..sql.spark_types import INTEGERS, UNKNOWN
from .state_types import argument_type, is_average_exact

#: Nodes that may have the text of the expression in them.
_CLAUSES = exp.Literal | exp.Identifier | exp.Alias | exp.Ordered | exp.Order | exp.Sort | exp.Having | exp.Group

_FOREIGN = exp.Query | exp.Window | exp.WithinGroup | exp.Any | exp.Star | exp.Tuple | exp.Lambda | exp.Placeholder
_MEANS = ("avg", "mean")


class NotInUnits(Exception):  # noqa: N818 (a reason, not an error: the aggregation stays with Spark)
    """An aggregation cannot be taken apart; the message is the reason."""


def aggregates(select: exp.Select) -> bool:
    """Tell whether a SELECT groups or has an aggregate of its own."""
    if select.args.get("group"):
        return True
    trees = [*select.expressions, *(select.args[key] for key in ("having",) if select.args.get(key))]
    return any(called(node) in AGGREGATES for tree in trees for node in _own(tree))


def _own(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression without those of subqueries, and without a window function's own call."""
    if isinstance(tree, exp.Query):
        return
    yield tree
    for child in tree.iter_expressions():
        if isinstance(tree, exp.Window) and child is tree.this:
            for argument in child.iter_expressions():
                yield from _own(argument)
        else:
            yield from _own(child)


class AggregationReader:
    """Takes the aggregation of one SELECT apart.

    Parameters
    ----------
    select
        The SELECT, resolved.
    text, term
        Return an expression with columns qualified by the aliases of the plan.
    relations
        The aliases that an expression mentions, None if it mentions something else.
    first
        An alias: where arguments without any column are computed.
    """

    def __init__(
        self,
        select: exp.Select,
        text: Callable[[exp.Expr], str],
        term: Callable[[exp.Expr], Term],
        relations: Callable[[exp.Expr], tuple[str, ...] | None],
        first: str,
    ) -> None:
        self.select, self.text, self.term, self.relations, self.first = select, text, term, relations, first
        self.keys: dict[str, GroupKey | None] = {}
        self.states: dict[tuple[str, Term | None], PartialState] = {}
        self.merges: dict[str, str] = {}
        self.shown: list[str] = []

    def read(self) -> Aggregation:
        """Return the two steps.

        Raises
        ------
        NotInUnits
            The SELECT does not allow it.
        """
        select = self.select
        for key, what in (("qualify", "QUALIFY"), ("windows", "WINDOW"), ("laterals", "LATERAL VIEW")):
            if select.args.get(key):
                raise NotInUnits(f"{what} stays with Spark")
        group = select.args.get("group")
        for item in self.group_items(group):
            self.add_key(item)
        for clause in (*select.expressions, *(select.args.get(key) for key in ("having", "order", "sort"))):
            if clause is not None:
                self.visit(clause)
        for clause in (select.args.get(key) for key in ("cluster", "distribute", "limit", "offset")):
            if clause is not None and any(
                called(one) in AGGREGATES or field_of(one) is not None for one in clause.walk()
            ):
                raise NotInUnits(f"{render(clause).strip()} stays with Spark")
        keys = tuple(key for key in self.keys.values() if key is not None)
        return Aggregation(
            keys,
            tuple(self.states.values()),
            tuple(self.merges.items()),
            tuple(self.shown),
        )

    # ------------------------------------------------------------------------------------------------------ GROUP BY

    def group_items(self, group: exp.Expr | None) -> list[exp.Expr]:
        if group is None:
            return []
        if any(value for key, value in group.args.items() if key != "expressions"):
            raise NotInUnits("GROUP BY ALL, ROLLUP, CUBE and GROUPING SETS stay with Spark")
        items: list[exp.Expr] = self.select.expressions
        named = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}
        found = []
        for tree in group.expressions:
            if isinstance(tree, exp.Literal) and tree.is_int:
                place = int(tree.name)
                if not 1 <= place <= len(items) or any(map(_is_star, items[:place])):
                    raise NotInUnits(f"GROUP BY {place} is no item of SELECT that can be told")
                item = items[place - 1]
                found.append(item.this if isinstance(item, exp.Alias) else item)
            elif isinstance(tree, exp.Column) and field_of(tree) is None:
                if tree.name.lower() not in named:
                    raise NotInUnits(f"{render(tree)} in GROUP BY cannot be told")
                found.append(named[tree.name.lower()])
            else:
                found.append(tree)
        return found

    def add_key(self, tree: exp.Expr) -> None:
        if any(called(node) in ("window", "session_window", "window_time") for node in tree.walk()):
            raise NotInUnits("a window of time stays with Spark")
        text = self.canonical(tree)
        if text in self.keys:
            return
        relations = self.moved(tree, "the GROUP BY expression")
        if relations:
            self.keys[text] = GroupKey(f"__key_{len(self.keys) + 1}", self.term(tree), text)
        else:
            self.keys[text] = None  # a constant stays where it is

    def canonical(self, tree: exp.Expr) -> str:
        return canonical(tree, self.text)

    def moved(self, tree: exp.Expr, what: str) -> tuple[str, ...]:
        """Return the relations of an expression, if it may be computed before the join."""
        relations = self.relations(tree)
        if relations is None:
            raise NotInUnits(f"{what} {render(tree)} is not over the joined relations alone")
        if any(map(read_anew, tree.walk())):
            raise NotInUnits(f"{what} {render(tree)} has another value later")
        unknown = any(field_of(column) is None for column in tree.find_all(exp.Column))
        if unknown or may_fail(typed(tree)):
            raise NotInUnits(f"{what} {render(tree)} could raise an error on a row that does not join")
        return relations

    # ---------------------------------------------------------------------------------------------------- aggregates

    def visit(self, tree: exp.Expr) -> None:
        """Find the aggregates of a clause; all other columns must be inside GROUP BY expressions."""
        name = called(tree.this if isinstance(tree, exp.Filter) else tree)
        if name in AGGREGATES:
            self.merges.setdefault(self.canonical(tree), self.merged(tree))
            return
        if self.canonical(tree) in self.keys:
            return
        if isinstance(tree, _FOREIGN):
            raise NotInUnits(f"{render(tree)} stays with Spark")
        if isinstance(tree, exp.Column) and field_of(tree) is not None:
            raise NotInUnits(f"{render(tree)} is not in GROUP BY")
        if name and name not in SCALARS | PURE | PARTS_OF_DATES:
            raise NotInUnits(f"{name} may be an aggregate")
        for child in tree.iter_expressions():
            self.visit(child)

    def merged(self, tree: exp.Expr) -> str:
        """Return the replacement of an aggregate."""
        call, condition = tree, None
        if isinstance(tree, exp.Filter):
            call, condition = tree.this, tree.expression.this
        name, arguments = called(call), list(call.expressions)
        if name not in ("count", "count_if", "sum", "min", "max", *_MEANS):
            raise NotInUnits(f"{name.upper()} is not among COUNT, SUM, MIN, MAX and AVG")
        if any(isinstance(argument, exp.Distinct) for argument in arguments):
            raise NotInUnits(f"{render(call)} needs all values")
        if len(arguments) != 1 and not (name == "count" and arguments):
            raise NotInUnits(f"{render(call)} cannot be read")
        if any(called(node) in AGGREGATES for argument in arguments for node in argument.walk()):
            raise NotInUnits(f"{render(call)} has an aggregate inside")
        if render(tree) not in self.shown:
            self.shown.append(render(tree))
        if name in ("count", "count_if"):
            return f"COALESCE(SUM({self.count(name, arguments, condition)}), 0)"
        argument = arguments[0]
        kind = argument_type(typed(argument))
        if condition is not None:
            argument = exp.Case(ifs=[exp.If(this=condition.copy(), true=argument.copy())])
        if name in ("min", "max"):
            return f"{name.upper()}({self.state(name, argument, UNKNOWN)})"
        summed = sum_type(kind)
        if name == "sum":
            if summed is None:
                raise NotInUnits(f"{render(call)}: SUM is not computed in units for the type {kind}")
            state = self.state("sum", argument, summed)
            return f"CAST(SUM({state}) AS {summed})" if summed.startswith("decimal") else f"SUM({state})"
        counted = self.count("count", [argument], None)
        if kind in (*INTEGERS, "float", "double"):
            total = self.state("sum", argument, "double", cast=kind != "double")
            return f"SUM({total}) / NULLIF(SUM({counted}), 0)"
        digits = decimal_digits(kind)
        if summed is None or digits is None or not is_average_exact(*digits):
            raise NotInUnits(f"{render(call)}: AVG is not computed in units for the type {kind}")
        total = f"CAST(SUM({self.state('sum', argument, summed)}) AS {summed})"
        count = f"CAST(NULLIF(SUM({counted}), 0) AS DECIMAL(19, 0))"
        return f"CAST({total} / {count} AS DECIMAL({digits[0] + 4}, {digits[1] + 4}))"

    def count(self, name: str, arguments: list[exp.Expr], condition: exp.Expr | None) -> str:
        """Return the state of a count: of all rows, or of the rows that fulfil a condition."""
        conditions = [] if condition is None else [condition]
        if name == "count_if":
            conditions += arguments
        else:
            real = [one for one in arguments if not isinstance(one, exp.Star | exp.Literal)]
            if len(real) == 1 and not conditions:
                return self.state("count", real[0], "bigint")
            values = (one.copy() if isinstance(one, exp.Column) else exp.paren(one) for one in real)
            conditions += [exp.Not(this=exp.Is(this=value, expression=exp.Null())) for value in values]
        if not conditions:
            return self.state("count", None, "bigint")
        both = exp.and_(*conditions) if len(conditions) > 1 else conditions[0].copy()
        return self.state("count", exp.Case(ifs=[exp.If(this=both, true=exp.Literal.number(1))]), "bigint")

    def state(self, function: str, argument: exp.Expr | None, kind: str, *, cast: bool = False) -> str:
        """Return the name of a state; ``cast`` casts the argument to the state's type first."""
        term = None
        if argument is not None:
            relations = self.moved(argument, f"the argument of {function.upper()}") or (self.first,)
            expr = self.term(argument).expr
            expr = Call("CAST", (expr,), ("CAST(", f" AS {kind})"), kind) if cast else expr
            term = Term(expr, relations)
        if (function, term) not in self.states:
            name = f"__{function}_{len(self.states) + 1}"
            self.states[function, term] = PartialState(name, function, term, kind)  # type: ignore[arg-type]
        return self.states[function, term].name


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star))


def canonical(tree: exp.Expr, text: Callable[[exp.Expr], str]) -> str:
    """Return a text that is equal for expressions that Spark considers equal."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    copy = tree.copy()
    for node in copy.find_all(exp.Anonymous):
        node.set("this", called(node))
    return text(copy)


def replaced(tree: exp.Expr, replacements: Mapping[str, str], text: Callable[[exp.Expr], str]) -> exp.Expr:
    """Return a copy of a clause in which the outermost GROUP BY expressions and aggregates are replaced."""
    copy = tree.copy()

    def visit(node: exp.Expr) -> exp.Expr:
        found = None if isinstance(node, _CLAUSES) else replacements.get(canonical(node, text))
        if found is not None:
            return parse_expression(found).copy()
        for child in list(node.iter_expressions()):
            new = visit(child)
            if new is not child:
                child.replace(exp.Paren(this=new) if isinstance(new, exp.Binary) else new)
        return node

    return visit(copy)
