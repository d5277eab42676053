"""What sort of conjunct is this? From a condition to kernel predicates, bands and residuals.

Bands are found among conjuncts of the form ``base + constant <op> base + constant`` over integers, dates and
timestamps, where moving the constants to one side is exact. Fractions keep their expressions as keys: ``x >= y - 0.5``
and ``x - y >= -0.5`` differ in the last digit.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from .bands import DAY, Difference, bound_difference, constant_sql, intersect, same_difference
from .dialect import identifier, interval_microseconds, parse_expression, render
from .plan import FLIPPED, ComparisonOp, Node, Predicate, PredicateKind, scans
from .types import FRACTIONS, INTEGERS, TIMES, UNKNOWN, integer_limits, is_comparable, is_decimal, type_of

_DATE_DIFFERENCES = ("datediff", "date_diff")

_OPS: dict[type[exp.Expr], ComparisonOp] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}

_KINDS: dict[str, PredicateKind] = {"=": "equi", "<=>": "null_safe", "<>": "not_equal"}


@dataclass(frozen=True)
class Scope:
    """The relations of a join tree, in plan order, and the types of their columns."""

    order: tuple[str, ...]
    types: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, node: Node) -> Scope:
        """Return the scope of a join tree."""
        below = scans(node)
        types = {(scan.alias, column.name): column.type for scan in below for column in scan.columns}
        return cls(tuple(scan.alias for scan in below), types)

    def relations(self, tree: exp.Expr) -> tuple[str, ...]:
        """Return the relations that an expression reads, in plan order."""
        found = {column.table for column in tree.find_all(exp.Column)}
        return tuple(alias for alias in self.order if alias in found)

    def type_of(self, tree: exp.Expr) -> str:
        """Return the type of an expression, ``unknown`` if the schemas do not tell."""
        return type_of(tree, lambda column: self.types.get((column.table, column.name), UNKNOWN))


def raw(text: str, scope: Scope, sql: str | None = None, derived: bool = False) -> Predicate:
    """Return a condition as a predicate that has not been classified."""
    return Predicate(sql or text, "residual", scope.relations(parse_expression(text)), rendered=text, derived=derived)


def columns_of(text: str) -> tuple[tuple[str, str], ...]:
    """Return the columns of a condition as ``(alias, name)`` in the order of the text."""
    found = {(column.table, column.name): None for column in parse_expression(text).find_all(exp.Column)}
    return tuple(found)


def is_equality(text: str) -> bool:
    """Tell whether a condition is an equality between two columns' sides."""
    tree = parse_expression(text)
    if not isinstance(tree, exp.EQ | exp.NullSafeEQ):
        return False
    sides = [{column.table for column in side.find_all(exp.Column)} for side in (tree.this, tree.expression)]
    return all(sides) and not sides[0] & sides[1]


def remap(text: str, column: Callable[[str, str], exp.Expr | None]) -> str:
    """Return a condition with its columns ``(alias, name)`` written anew; None keeps a column as it is."""
    tree = parse_expression(text).copy()
    for node in [tree] if isinstance(tree, exp.Column) else list(tree.find_all(exp.Column)):
        other = column(node.table, node.name)
        if other is None:
            continue
        if node is tree:
            tree = other
        else:
            node.replace(other)
    return render(tree)


def over_output(predicate: Predicate, names: Mapping[tuple[str, str], str]) -> Predicate:
    """Return a residual over a join node's output names; other predicates stay as they are."""
    if predicate.kind != "residual" or predicate.rendered is None:
        return predicate
    rendered = remap(predicate.rendered, lambda alias, name: exp.Column(this=identifier(names[alias, name])))
    return dataclasses.replace(predicate, rendered=rendered)


def classify(predicates: Iterable[Predicate], scope: Scope) -> tuple[Predicate, ...]:
    """Classify raw predicates, and merge the two sides of a band into one predicate."""
    done: list[Predicate | Difference] = []
    for predicate in predicates:
        if predicate.kind != "residual":
            done.append(predicate)
            continue
        for found in _classify(predicate, parse_expression(predicate.rendered or predicate.sql), scope):
            _add(done, found)
    result: list[Predicate] = []
    for item in done:
        result.append(_predicate(item) if isinstance(item, Difference) else item)
    return tuple(dict.fromkeys(result))


def _add(done: list[Predicate | Difference], found: Predicate | Difference) -> None:
    if isinstance(found, Difference):
        for index, known in enumerate(done):
            if isinstance(known, Difference) and same_difference(known, found):
                done[index] = intersect(known, found)
                return
    done.append(found)


# -------------------------------------------------------------------------------------------------------- one conjunct


def _classify(predicate: Predicate, tree: exp.Expr, scope: Scope) -> list[Predicate | Difference]:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    relations = scope.relations(tree)
    if len(relations) != 2:
        return [predicate]
    if isinstance(tree, exp.Between) and not tree.args.get("symmetric"):
        low = exp.GTE(this=tree.this.copy(), expression=tree.args["low"].copy())
        high = exp.LTE(this=tree.this.copy(), expression=tree.args["high"].copy())
        parts: list[Predicate | Difference] = []
        for part in (low, high):
            inner = dataclasses.replace(predicate, relations=scope.relations(part))
            parts += _classify(inner, part, scope)
        if all(isinstance(part, Predicate) and part.kind == "residual" for part in parts):
            return [predicate]
        return parts
    op = _OPS.get(type(tree))
    if op is None:
        return [predicate]
    return _comparison(predicate, op, tree.this, tree.expression, scope) or [predicate]


def _comparison(
    predicate: Predicate, op: ComparisonOp, left: exp.Expr, right: exp.Expr, scope: Scope
) -> list[Predicate | Difference] | None:
    ones, others = scope.relations(left), scope.relations(right)
    if len(ones) == 2 and not others:
        return _constant_difference(predicate, op, left, right, scope)
    if len(others) == 2 and not ones:
        return _constant_difference(predicate, FLIPPED[op], right, left, scope)
    if len(ones) != 1 or len(others) != 1:
        return None
    if scope.order.index(ones[0]) > scope.order.index(others[0]):
        left, right, op = right, left, FLIPPED[op]
    if op in ("<", "<=", ">", ">="):
        difference = _shifted(predicate, op, left, right, scope)
        if difference:
            return [difference]
    if not (is_comparable(scope.type_of(left)) and is_comparable(scope.type_of(right))):
        return None
    return [_plain(predicate, op, left, right)]


def _plain(predicate: Predicate, op: ComparisonOp, left: exp.Expr, right: exp.Expr) -> Predicate:
    return Predicate(
        predicate.sql,
        _KINDS.get(op, "range"),
        predicate.relations,
        op,
        render(_bare(left)),
        render(_bare(right)),
        rendered=predicate.rendered,
        derived=predicate.derived,
    )


def _bare(tree: exp.Expr) -> exp.Expr:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def _shifted(
    predicate: Predicate, op: ComparisonOp, left: exp.Expr, right: exp.Expr, scope: Scope
) -> Difference | None:
    """``base + c <op> base + c``: each side reads one relation."""
    one, other = _offset(left, scope), _offset(right, scope)
    if one is None or other is None or one[2] != other[2]:
        return None
    relations = (predicate.relations[0], predicate.relations[1])
    guards = tuple(
        (alias, render(_bare(side)))
        for alias, side, base in zip(relations, (left, right), (one[0], other[0]), strict=True)
        if render(_bare(side)) != base
    )
    bound = other[1] - one[1]
    return bound_difference(predicate, relations, one[0], other[0], one[2], op, Fraction(bound), guards)


def _offset(tree: exp.Expr, scope: Scope) -> tuple[str, int, str] | None:
    """Split ``base + constant`` into the base's text, the constant and its unit, where that is exact."""
    tree = _bare(tree)
    shift, base = 0, tree
    kind = scope.type_of(tree)
    while isinstance(base, exp.Add | exp.Sub):
        left, right = _bare(base.left), _bare(base.right)
        sign = 1 if isinstance(base, exp.Add) else -1
        constant = _constant(right, scope.type_of(left))
        rest = left
        if constant is None and sign == 1:
            constant, rest = _constant(left, scope.type_of(right)), right
        if constant is None:
            break
        shift += sign * constant
        base = rest
    unit = _unit(scope.type_of(base))
    if unit is None or _unit(kind) != unit:
        return None
    if unit == "timestamp" and abs(shift) >= DAY:
        return None  # a day is not always 24 hours: Spark adds it on the calendar of the session's zone
    return render(base), shift, unit


def _unit(kind: str) -> str | None:
    if kind in INTEGERS:
        return "integer"
    return kind if kind in (*TIMES, "date") else None


def _constant(tree: exp.Expr, beside: str) -> int | None:
    """Return a constant beside a value of some type, in that type's units."""
    number = _number(tree)
    if number is not None and number.denominator == 1 and beside in (*INTEGERS, "date"):
        return int(number)
    micros = interval_microseconds(tree)
    if micros is None:
        return None
    if beside in TIMES:
        return micros
    return micros // DAY if beside == "date" and micros % DAY == 0 else None


def _number(tree: exp.Expr) -> Fraction | None:
    tree = _bare(tree)
    if isinstance(tree, exp.Neg):
        inner = _number(tree.this)
        return None if inner is None else -inner
    if isinstance(tree, exp.Literal) and not tree.is_string and re.fullmatch(r"\d+(\.\d*)?|\.\d+", tree.name):
        return Fraction(tree.name.rstrip("."))
    return None


# ---------------------------------------------------------------------------------------- differences of two relations


def _constant_difference(
    predicate: Predicate, op: ComparisonOp, tree: exp.Expr, bound: exp.Expr, scope: Scope
) -> list[Predicate | Difference] | None:
    """``x - y <op> c``, ``ABS(x - y) <op> c`` and the same with DATEDIFF."""
    tree = _bare(tree)
    absolute = isinstance(tree, exp.Anonymous) and str(tree.this).lower() == "abs" and len(tree.expressions) == 1
    if isinstance(tree, exp.Anonymous) and absolute:
        tree = _bare(tree.expressions[0])
    if absolute and op not in ("<", "<="):
        return None
    if op not in ("<", "<=", ">", ">="):
        return None
    sides = _minus(tree)
    if sides is None:
        return None
    one, other = sides
    ones, others = scope.relations(one), scope.relations(other)
    if len(ones) != 1 or len(others) != 1:
        return None
    if scope.order.index(ones[0]) > scope.order.index(others[0]):
        one, other = other, one
        op = op if absolute else FLIPPED[op]
        flipped, turned = not absolute, True
    else:
        flipped = turned = False
    exact = _exact_difference(predicate, op, one, other, bound, absolute, flipped, turned, tree, scope)
    return exact or _fractional_difference(predicate, op, one, other, bound, absolute, flipped, scope)


def _minus(tree: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    if isinstance(tree, exp.Sub):
        return _bare(tree.left), _bare(tree.right)
    if not isinstance(tree, exp.Anonymous) or len(tree.expressions) != 2:
        return None
    return (tree.expressions[0], tree.expressions[1]) if str(tree.this).lower() in _DATE_DIFFERENCES else None


def _exact_difference(
    predicate: Predicate,
    op: ComparisonOp,
    one: exp.Expr,
    other: exp.Expr,
    bound: exp.Expr,
    absolute: bool,
    flipped: bool,
    turned: bool,
    tree: exp.Expr,
    scope: Scope,
) -> list[Predicate | Difference] | None:
    left, right = _offset(one, scope), _offset(other, scope)
    if left is None or right is None or left[2] != right[2]:
        return None
    unit = left[2]
    if isinstance(tree, exp.Anonymous) and unit != "date":
        return None
    limit = _limit(bound, unit, isinstance(tree, exp.Anonymous))
    if limit is None:
        return None
    texts = [left[0], right[0]]
    if unit == "timestamp":
        # Spark subtracts timestamps on the wall clock of the session's zone.
        texts, unit = [f"CAST({text} AS TIMESTAMP_NTZ)" for text in texts], "timestamp_ntz"
        if left[1] or right[1]:
            return None
    relations = (predicate.relations[0], predicate.relations[1])
    guards = tuple(
        (alias, render(side))
        for alias, side, (base, _, _) in zip(relations, (one, other), (left, right), strict=True)
        if render(side) != base
    )
    limit = -limit if flipped else limit
    shift = right[1] - left[1]
    computed = integer_limits(scope.type_of(tree)) if unit == "integer" else None
    limits = None
    if computed is not None:
        # ABS of the least number overflows too. The text may compute y - x, and each side may be shifted.
        least, most = computed[0] + absolute, computed[1]
        limits = (-most + shift, -least + shift) if turned else (least + shift, most + shift)
    ends = [(op, limit + shift), (FLIPPED[op], -limit + shift)][: 1 + absolute]
    found = [
        bound_difference(
            predicate, relations, texts[0], texts[1], unit, end, bound, guards, limits, scope.type_of(tree)
        )
        for end, bound in ends
    ]
    return [intersect(*found)] if absolute else [found[0]]


def _limit(bound: exp.Expr, unit: str, in_days: bool) -> Fraction | None:
    bound = _bare(bound)
    number = _number(bound)
    if number is not None and (unit == "integer" or in_days):
        return number
    micros = interval_microseconds(bound)
    if micros is None or in_days or unit == "integer":
        return None
    return Fraction(micros, DAY) if unit == "date" else Fraction(micros)


def _fractional_difference(
    predicate: Predicate,
    op: ComparisonOp,
    one: exp.Expr,
    other: exp.Expr,
    bound: exp.Expr,
    absolute: bool,
    flipped: bool,
    scope: Scope,
) -> list[Predicate | Difference] | None:
    """Over fractions: a slightly wider range for the kernel, and the conjunct itself for Spark.

    Only upper bounds of the difference the user wrote: NaN is greater than all numbers, so a lower bound lets it pass.
    """
    number = _number(bound)
    kinds = [scope.type_of(side) for side in (one, other)]
    if number is None or (not absolute and (op in (">", ">=")) != flipped):
        return None
    if all(kind in FRACTIONS for kind in kinds):
        wide = abs(float(number)) * 1.000001
        text = f"{wide if number >= 0 else -abs(float(number)) * 0.999999:.17E}"
    elif all(is_decimal(kind) and int(kind[8:].split(",")[0]) <= 30 for kind in kinds):
        text = render(_bare(bound))
    else:
        return None
    upper_of_one, upper_of_other = _upper(other, text), _upper(one, text)
    found: list[Predicate | Difference] = []
    if absolute or not flipped:
        found.append(_plain(predicate, "<=", one, upper_of_one))
    if absolute or flipped:
        found.append(_plain(predicate, ">=", upper_of_other, other))
    return [*found, predicate]


def _upper(other: exp.Expr, text: str) -> exp.Expr:
    base = f"({render(other)})" if isinstance(other, exp.Binary) else render(other)
    return parse_expression(f"{base} + {text}")


# ------------------------------------------------------------------------------------------------------------- output


def _predicate(difference: Difference) -> Predicate:
    lower, upper = difference.lower, difference.upper
    one_sided = lower is None or upper is None
    op: ComparisonOp = "band"
    if one_sided and (lower or upper or 0) == 0 and difference.limits is None:
        inclusive = difference.lower_inclusive or difference.upper_inclusive
        op = (">=" if inclusive else ">") if lower is not None else ("<=" if inclusive else "<")
        lower = upper = None
    is_band = op == "band"
    return Predicate(
        " AND ".join(difference.sql),
        "band" if is_band else "range",
        difference.relations,
        op,
        difference.left,
        difference.right,
        constant_sql(lower, difference.unit),
        constant_sql(upper, difference.unit),
        is_band and difference.lower_inclusive,
        is_band and difference.upper_inclusive,
        difference.guards,
        " AND ".join(difference.rendered),
        difference.derived,
        difference.limits if is_band else None,
        difference.computed_as if is_band else None,
    )


def flipped(predicate: Predicate) -> Predicate:
    """Return a kernel predicate with its sides exchanged.

    Examples
    --------
    >>> flipped(Predicate("r.a < s.a", "range", ("r", "s"), "<", "r.a", "s.a")).op
    '>'
    """
    assert predicate.op is not None
    relations = predicate.relations[::-1]
    if predicate.op != "band":
        return dataclasses.replace(
            predicate, relations=relations, op=FLIPPED[predicate.op], left=predicate.right, right=predicate.left
        )
    return dataclasses.replace(
        predicate,
        relations=relations,
        left=predicate.right,
        right=predicate.left,
        lower=_negated(predicate.upper),
        upper=_negated(predicate.lower),
        lower_inclusive=predicate.upper_inclusive,
        upper_inclusive=predicate.lower_inclusive,
        limits=None if predicate.limits is None else (-predicate.limits[1], -predicate.limits[0]),
    )


def _negated(constant: str | None) -> str | None:
    if constant is None:
        return None
    micros = interval_microseconds(parse_expression(constant))
    return str(-int(constant)) if micros is None else constant_sql(-micros, "timestamp")
