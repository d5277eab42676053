"""Whether an expression may raise an error on some row: such a one is not computed for more rows than Spark would.

`tried` returns what can be computed for every row in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sqlglot import exp

from .dialect import parse_expression, render
from .functions import ALIKE, CASTS, PARTS_OF_DATES, PURE, TIME_ARITHMETIC, TWINS, called
from .spark_types import FRACTIONS, INTEGERS, TIMES, UNKNOWN, is_decimal, text_type, type_name

TypeOf = Callable[[exp.Expr], str]

#: Nodes of expressions that raise no error, whatever their operands (except for the overflow of whole numbers).
_HARMLESS = (
    exp.Column | exp.Dot | exp.Identifier | exp.Literal | exp.Boolean | exp.Null | exp.Paren | exp.Neg | exp.Var
    | exp.Add | exp.Sub | exp.Mul | exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE | exp.NullSafeEQ
    | exp.And | exp.Or | exp.Not | exp.Is | exp.Between | exp.In | exp.Like | exp.Case | exp.If | exp.DPipe | exp.Trim
    | exp.Substring | exp.Interval | exp.Alias
)  # fmt: skip


def may_fail(tree: exp.Expr, type_of: TypeOf) -> bool:
    """Return whether an expression may raise an error other than the overflow of whole numbers.

    Parameters
    ----------
    type_of
        Gives the type of an expression, ``"unknown"`` where that is not known.
    """
    for node in tree.walk():
        if not (isinstance(node, _HARMLESS) or called(node) in PURE or _harmless_special(node, type_of)):
            return True
        for operands in (_alike(node), _results(node)):
            kinds = {text_type(type_of(operand)) for operand in operands}
            if "string" in kinds and len(kinds - {UNKNOWN}) > 1:
                return True
    return False


def _harmless_special(node: exp.Expr, type_of: TypeOf) -> bool:
    """Tell whether a cast, a division or a part of a date raises no error."""
    match node:
        case exp.TryCast() | exp.DataType() | exp.DataTypeParam():
            return True
        case exp.Cast():
            return _always_casts(node, type_of)
        case exp.Div() | exp.Mod() | exp.IntDiv():
            divisor = node.right
            return isinstance(divisor, exp.Literal) and not divisor.is_string and float(divisor.name) != 0
        case exp.Extract():
            return type_of(node.expression) in (*TIMES, "date")
        case exp.Anonymous() if called(node) in PARTS_OF_DATES:
            return all(type_of(part) in (*TIMES, "date") for part in node.expressions if not _is_text(part))
        case exp.Anonymous() if called(node) in TIME_ARITHMETIC:
            operands = (part for part in node.expressions if not isinstance(part, exp.Var))  # but for the unit
            return all(type_of(part) in (*TIMES, *INTEGERS, "date") for part in operands)
    return False


def _always_casts(node: exp.Cast, type_of: TypeOf) -> bool:
    """Tell whether every value of the type of a cast's operand has one of the other type."""
    inner, to = type_of(node.this), type_name(render(node.args["to"]))
    if to == "string" or isinstance(node.this, exp.Literal):
        return True
    if inner in (*TIMES, "date"):
        return to in (*TIMES, "date")
    if inner in INTEGERS:
        return to in (*INTEGERS[INTEGERS.index(inner) :], *FRACTIONS)
    return to in FRACTIONS and (inner in FRACTIONS or is_decimal(inner))


def tried(tree: exp.Expr, type_of: TypeOf) -> tuple[exp.Expr, exp.Expr] | None:
    """Return an expression that is NULL where another one raises an error, and a condition that is true of such rows.

    It may be true of more rows. None if nothing in the expression is known to raise errors, or if a CASE or an IF in it
    says of which rows something is computed.

    Examples
    --------
    ``CAST(r.t AS INT) / r.n`` is ``TRY_CAST(r.t AS INT) / NULLIF(r.n, 0)``; the rows are those for which ``r.t IS NOT
    NULL AND TRY_CAST(r.t AS INT) IS NULL OR r.n = 0``.
    """
    if tree.find(exp.Case, exp.If):
        return None
    failures: list[str] = []
    form = exp.paren(tree)  # so that each node has a parent, in which it is replaced
    for node in reversed(list(form.bfs())):  # what is inside first
        found = _twin(node, type_of)
        if found is not None:
            twin, fails = found
            failures.append(fails)
            node.replace(parse_expression(twin).copy())
    if not failures:
        return None
    return form.this, parse_expression(" OR ".join(dict.fromkeys(failures)))


def _twin(node: exp.Expr, type_of: TypeOf) -> tuple[str, str] | None:
    """Return the text of a node that gives NULL where another one raises an error, and when that is."""
    inside: list[exp.Expr] = []
    match node:
        case exp.TryCast():
            return None
        case exp.Cast() if not _always_casts(node, type_of):
            inside, twin = [node.this], f"TRY_CAST({render(node.this)} AS {render(node.args['to'])})"
        case exp.Anonymous() if called(node) in CASTS and len(node.expressions) == 1:
            return _twin(parse_expression(f"CAST({render(node.expressions[0])} AS {called(node)})"), type_of)
        case exp.Anonymous() if called(node) in TWINS and not type_of(node.expressions[0]).startswith("map"):
            inside = node.expressions
            twin = f"{TWINS[called(node)]}({', '.join(map(render, inside))})"
        case exp.Bracket() if _is_array(node.this, type_of) and len(node.expressions) == 1:
            inside, twin = [node.this, *node.expressions], f"GET({render(node.this)}, {render(node.expressions[0])})"
        case exp.Div() | exp.Mod() | exp.IntDiv() if not _harmless_special(node, type_of):
            divisor = render(node.right)
            whole = node.copy()
            whole.right.replace(parse_expression(f"NULLIF({divisor}, 0)").copy())
            return render(whole), f"{divisor} = 0"
        case _:
            return None
    given = " AND ".join(f"{render(exp.paren(one))} IS NOT NULL" for one in inside if not isinstance(one, exp.Literal))
    return twin, f"({f'{given} AND ' if given else ''}{twin} IS NULL)"


def _is_array(tree: exp.Expr, type_of: TypeOf) -> bool:
    return isinstance(tree, exp.Array) or type_of(tree).startswith("array")


def _alike(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the operands that Spark casts to one type; the cast of a text may raise an error."""
    match node:
        case exp.DPipe() | exp.And() | exp.Or() | exp.Dot():
            return
        case exp.Binary():
            yield from (node.left, node.right)
        case exp.In():
            yield from (node.this, *node.expressions)
        case exp.Between():
            yield from (node.this, node.args["low"], node.args["high"])
        case exp.Case():
            branches = node.args["ifs"]
            if node.this is not None:
                yield from (node.this, *(branch.this for branch in branches))
        case exp.Anonymous() if called(node) in ALIKE:
            yield from node.expressions


def _results(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the results of a CASE or an IF."""
    match node:
        case exp.Case():
            yield from (branch.args["true"] for branch in node.args["ifs"])
            if node.args.get("default") is not None:
                yield node.args["default"]
        case exp.If():
            yield from (tree for tree in (node.args.get("true"), node.args.get("false")) if tree is not None)


def _is_text(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Literal) and tree.is_string
