"""Edges of a join node: predicates become checks on packed columns, once Spark has told the types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ...errors import UnsupportedQueryError
from ...rewriter.plan.comparison import LARGEST, Comparable, closest_type, common_type, unordered
from ...rewriter.plan.conjuncts import Band, Compare, Comparison, Either, KernelPredicate, NotEqual
from ...rewriter.plan.joins import Branch, Closest
from ...rewriter.plan.nodes import JoinNode
from ...rewriter.plan.parts import Edge
from ...rewriter.plan.schemes import RECORDS
from .. import checks, spec
from .compiling import NotAsPlannedError
from .inputs import Input, branch_matching

_Equal = tuple[Column, Column, bool]


def compile_edge(node: JoinNode, edge: Edge, inputs: Mapping[str, Input]) -> checks.EdgeSpec:
    """Return an edge's checks."""
    left, right = inputs[edge.left], inputs[edge.right]
    kept: list[checks.Check] = []
    implied = RECORDS[node.decision.scheme or "matrix"].ends_meet_at_hub
    checked = node.graph.not_implied(edge) if implied else edge.predicates
    equal: list[_Equal] = []
    for number, predicate in enumerate(edge.predicates):
        check = _check(predicate, left, right, equal, str(number))
        kept += [check] if predicate in checked else []
        if not isinstance(check, checks.AnyOf) and predicate.rejects_null:
            left.required.setdefault(check.left, predicate.keys[0].sql)
            right.required.setdefault(check.right, predicate.keys[1].sql)
    ranks = node.graph.relations.index(edge.left), node.graph.relations.index(edge.right)
    return checks.EdgeSpec(*ranks, tuple(kept), *_hashed(equal, left, right, ""))


def compile_closest(closest: Closest, edges: Iterable[checks.EdgeSpec], left: Input, right: Input) -> spec.Closest:
    """Return which partners of a row are results.

    Raises
    ------
    UnsupportedQueryError
        The kernel does not order values of that type.
    """
    kinds = left.type_of("key", closest.left.sql), right.type_of("key", closest.right.sql)
    common = closest_type(closest, *kinds)
    if common is None:
        raise UnsupportedQueryError(*unordered(closest, *kinds))
    here, there = left.pack_read("key", closest.left.sql, common), right.pack_read("key", closest.right.sql, common)
    left.required.setdefault(here, closest.left.sql)
    right.required.setdefault(there, closest.right.sql)
    latest = None
    if closest.latest:
        equal = (check for edge in edges for check in edge.checks if isinstance(check, checks.Compare))
        latest = tuple(check.right for check in equal if check.op in ("=", "<=>"))
    return spec.Closest(
        here,
        there,
        closest.by,
        closest.count,
        closest.condition.sql,
        common,
        LARGEST.get(common) if closest.by == "distance" and not closest.wraps else None,
        closest.wraps,
        closest.similarity,
        latest,
    )


def compile_branch(node: JoinNode, branch: Branch, inputs: Mapping[str, Input]) -> tuple[spec.Branch, checks.EdgeSpec]:
    """Return a branch of a ``mixed`` join, and the checks of its edge.

    A row of the core that has NULL where these need a value has no partner in the branch, and stays.

    Raises
    ------
    UnsupportedQueryError
        The kernel does not order values of the type that rows are closest by.
    """
    anchor, own = inputs[branch.anchor], inputs[branch.relation]
    others, anchor.required = anchor.required, {}
    edge = node.graph.edge(branch.anchor, branch.relation)
    assert edge is not None
    compiled = compile_edge(node, edge, inputs)
    names = node.graph.relations
    ranks = names.index(branch.relation), names.index(branch.anchor)
    closest = None
    if branch.closest is not None:
        closest = compile_closest(branch.closest, [compiled.seen_from(ranks[1])], anchor, own)
    for side in (anchor, own):
        matching = branch_matching(branch, side.alias)
        side.require_matching([" AND ".join(matching)] if matching else [])
    required, anchor.required = tuple(anchor.required), others
    return spec.Branch(*ranks, branch.kind, required, closest), compiled


def _check(predicate: KernelPredicate, left: Input, right: Input, equal: list[_Equal], name: str) -> checks.Check:
    """Return a predicate's check.

    Parameters
    ----------
    equal
        Gets its equality, if it is one: rows can be hashed by all of them.
    name
        Tells its hashes from those of the edge's other predicates.
    """
    if isinstance(predicate, Band):
        return compile_band(predicate, left, right)
    if not isinstance(predicate, Either):
        return _compare(predicate, left, right, equal)
    branches = []
    for number, branch in enumerate(predicate.branches):
        own: list[_Equal] = []
        both = tuple(_check(one, left, right, own, name) for one in branch)
        branches.append(checks.Branch(both, *_hashed(own, left, right, f"{name}.{number} ")))
    return checks.AnyOf(tuple(branches), exceptions=predicate.exceptions)


def _hashed(equal: list[_Equal], left: Input, right: Input, name: str) -> tuple[str | None, str | None]:
    """Pack the hashes of all equalities' columns, where equality cannot be decided on one integer column."""
    if not equal or (len(equal) == 1 and equal[0][2]):
        return None, None
    identity = f"{name}hash of {left.alias} and {right.alias}"
    hash_left = left.pack(F.xxhash64(*[columns[0] for columns in equal]), identity)
    hash_right = right.pack(F.xxhash64(*[columns[1] for columns in equal]), identity)
    return hash_left, hash_right


def _common(predicate: Comparison, left: Input, right: Input) -> Comparable:
    """Return the type in which Spark compares a predicate's sides; the rewriter has asked the same of `common_type`."""
    kinds = left.type_of("key", predicate.left.sql), right.type_of("key", predicate.right.sql)
    common = common_type(*kinds)
    if common is None:
        reason = f"the kernel does not compare {' with '.join(kinds)}: {predicate.sql}"
        raise NotAsPlannedError(reason, predicate.sql)
    return common


def _compare(predicate: Compare | NotEqual, left: Input, right: Input, equal: list[_Equal]) -> checks.Compare:
    one, other = predicate.left.sql, predicate.right.sql
    common = _common(predicate, left, right)
    op = predicate.op
    packed = left.pack_read("key", one, common.type), right.pack_read("key", other, common.type)
    if op in ("=", "<=>"):
        columns = left.cast("key", one, common.type), right.cast("key", other, common.type)
        hashed = [hashable(column, common.type) for column in columns]
        equal.append((hashed[0], hashed[1], common.exact and op == "="))
    return checks.Compare(op, *packed, common.exact)


def hashable(column: Column, type_name: str) -> Column:
    """Return a column such that values that are equal in Spark's sense have equal hashes."""
    if type_name in ("float", "double"):
        double = column.cast("double")
        return F.when(F.isnan(double), F.lit(float("nan"))).otherwise(double + F.lit(0.0))
    return column


def compile_band(predicate: Band, left: Input, right: Input) -> checks.Band:
    """Return a band's check."""
    one, other, bounds = predicate.left.sql, predicate.right.sql, predicate.bounds
    common = _common(predicate, left, right).type
    packed = left.pack_read("key", one, common), right.pack_read("key", other, common)
    strict = not bounds.lower_inclusive, not bounds.upper_inclusive
    if bounds.rounded:
        arithmetic: Literal["float32", "float64"] = "float32" if common == "float" else "float64"
        return checks.Band(*packed, bounds.lower, bounds.upper, *strict, arithmetic, nan=bounds.nan, sql=predicate.sql)
    return checks.Band(
        *packed,
        None if bounds.lower is None else int(bounds.lower) + strict[0],
        None if bounds.upper is None else int(bounds.upper) - strict[1],
        limits=bounds.limits,
        sql=predicate.sql,
        type_name=bounds.computed_as or common,
        wide=bounds.wide,
    )
