"""Edges of a join node: predicates become checks on packed columns, once Spark has told the types."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ...errors import PlanError
from ...rewriter.plan.comparison import common_type, decimal_scale
from ...rewriter.plan.nodes import Edge, JoinNode, Predicate
from ..spec import Band, Check, Compare, EdgeSpec, Op
from .inputs import Input, run_sql
from .travel_types import type_names

_Equal = tuple[Column, Column, bool]


def compile_edge(
    spark: SparkSession,
    node: JoinNode,
    edge: Edge,
    inputs: Mapping[str, Input],
    demoted: list[Predicate],
    arguments: Mapping[str, Any] | None,
) -> EdgeSpec:
    """Return an edge's checks; predicates that the kernel must not decide for their types go to ``demoted``."""
    left, right = inputs[edge.left], inputs[edge.right]
    checks: list[Check] = []
    equal: list[_Equal] = []
    # Under `semi_symmetric` the ends of a chain meet only at a row of the hub.
    checked = node.graph.not_implied(edge) if node.decision.scheme == "semi_symmetric" else edge.predicates
    for predicate in edge.predicates:
        check: Check | None
        if predicate.op == "band":
            check = _band(spark, predicate, left, right, arguments)
        else:
            check = _compare(predicate, left, right, equal)
        if check is not None:
            checks += [check] if predicate in checked else []
        elif not predicate.derived:
            demoted.append(predicate)
    ranks = node.graph.relations.index(edge.left), node.graph.relations.index(edge.right)
    if not equal or (len(equal) == 1 and equal[0][2]):
        return EdgeSpec(*ranks, tuple(checks))
    identity = f"hash of {edge.left} and {edge.right}"
    hash_left = left.pack(F.xxhash64(*[columns[0] for columns in equal]), identity)
    hash_right = right.pack(F.xxhash64(*[columns[1] for columns in equal]), identity)
    return EdgeSpec(*ranks, tuple(checks), hash_left, hash_right)


def _texts(predicate: Predicate) -> tuple[str, str]:
    if predicate.left is None or predicate.right is None:
        raise PlanError(f"not a comparison: {predicate.sql}")
    return predicate.left, predicate.right


def _compare(predicate: Predicate, left: Input, right: Input, equal: list[_Equal]) -> Compare | None:
    one, other = _texts(predicate)
    common = common_type(left.type_of("key", one), right.type_of("key", other))
    if common is None:
        return None
    op = cast(Op, predicate.op)
    packed = left.pack_read("key", one, common.type), right.pack_read("key", other, common.type)
    if op in ("=", "<=>"):
        columns = left.cast("key", one, common.type), right.cast("key", other, common.type)
        hashed = [hashable(column, common.type) for column in columns]
        equal.append((hashed[0], hashed[1], common.exact and op == "="))
    if op != "<=>":
        left.required.append(packed[0])
        right.required.append(packed[1])
    return Compare(op, *packed, common.exact)


def hashable(column: Column, type_name: str) -> Column:
    """Return a column such that values that are equal in Spark's sense have equal hashes."""
    if type_name in ("float", "double"):
        double = column.cast("double")
        return F.when(F.isnan(double), F.lit(float("nan"))).otherwise(double + F.lit(0.0))
    return column


def _band(
    spark: SparkSession, predicate: Predicate, left: Input, right: Input, arguments: Mapping[str, Any] | None
) -> Band | None:
    one, other = _texts(predicate)
    types = left.type_of("key", one), right.type_of("key", other)
    common = common_type(*types)
    if common is None or common.type in ("string", "binary", "boolean") or not common.exact:
        return None
    if "date" in types and types[0] != types[1]:
        return None
    if common.type in ("float", "double") and (predicate.lower is None or predicate.upper is None):
        return None  # NaN, and infinity minus infinity, are above every bound: no range of keys says so
    bounds = _constants(spark, predicate, arguments)
    if bounds is None or any(isinstance(bound, float) and not math.isfinite(bound) for bound in bounds):
        return None  # what is infinitely far from a number is no range of keys
    if common.type == "bigint" and any(isinstance(bound, float) for bound in bounds):
        return None  # Spark compares such a difference as double, with its rounding
    timed = [isinstance(bound, datetime.timedelta) for bound in bounds if bound is not None]
    unit = _unit(common.type)
    if common.type != "date" and any(is_timed != bool(unit) for is_timed in timed):
        return None  # bounds between dates are durations, or whole days
    packed = left.pack_read("key", one, common.type), right.pack_read("key", other, common.type)
    left.required.append(packed[0])
    right.required.append(packed[1])
    strict = not predicate.lower_inclusive, not predicate.upper_inclusive
    if common.type in ("float", "double"):
        low, high = (None if bound is None else float(bound) for bound in bounds)
        single = common.type == "float"
        return Band(*packed, low, high, *strict, "float32" if single else "float64", sql=predicate.sql)
    scale = decimal_scale(common.type) or 0
    lower, upper = bounds
    return Band(
        *packed,
        None if lower is None else _closed(lower, unit, scale, strict=strict[0], upper=False),
        None if upper is None else _closed(upper, unit, scale, strict=strict[1], upper=True),
        limits=predicate.limits,
        sql=predicate.sql,
        type_name=predicate.computed_as or common.type,
        wide=predicate.wide,
    )


def _unit(type_name: str) -> int:
    """Return how many microseconds one unit of a time type's order key is, 0 for numbers."""
    if type_name == "date":
        return 86_400_000_000
    return 1 if type_name.startswith(("timestamp", "interval")) else 0


def _constants(spark: SparkSession, predicate: Predicate, arguments: Mapping[str, Any] | None) -> list[Any] | None:
    """Let Spark evaluate a band's bounds; None if one is NULL, or of a kind that is not a number or a duration."""
    given = [text for text in (predicate.lower, predicate.upper) if text is not None]
    frame: DataFrame = run_sql(spark, "SELECT " + ", ".join(f"({text})" for text in given), {}, arguments)
    if any(name.startswith(("interval year", "interval month")) for name in type_names(frame)):
        return None
    row = frame.collect()[0]
    if any(not isinstance(value, int | float | decimal.Decimal | datetime.timedelta) for value in row):
        return None
    values = iter(row)
    return [None if text is None else next(values) for text in (predicate.lower, predicate.upper)]


def _closed(bound: Any, unit: int, scale: int, *, strict: bool, upper: bool) -> int:
    """Return a bound as a closed integer bound in units of the order key."""
    with decimal.localcontext(prec=80):
        if isinstance(bound, datetime.timedelta):
            micros = (bound.days * 86_400 + bound.seconds) * 1_000_000 + bound.microseconds
            exact = decimal.Decimal(micros) / decimal.Decimal(unit)
        else:
            exact = decimal.Decimal(bound) * (decimal.Decimal(10) ** scale)
        rounded = math.floor(exact) if upper else math.ceil(exact)
        if strict and rounded == exact:
            rounded += -1 if upper else 1
    return rounded
