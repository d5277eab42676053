"""A tree of joins of several kinds that one node can run: what belongs to it, and why a join above it does not.

A tree has a core of inner joins, and branches: LEFT, SEMI, ANTI, ASOF and NEAREST joins, EXISTS and NOT EXISTS, whose
conditions read one relation of the core and their own. Whether a row of a branch is a partner then depends on one row
of the core, whatever else is joined. So all of them are one node (004 section 4.3 lets the rewriter's user say what may
be a member; section 4.1 keeps intermediate results out of the state).

Example: in ``f LEFT JOIN a ON ABS(f.x - a.x) < 1 LEFT JOIN b ON f.k = b.k`` both are branches on ``f``. With ``b.k =
a.k`` the second one reads what the first may pad: it stays a join of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import cast

import networkx as nx

from ..event_time.bounds import has_window
from ..plan.comparison import closest_type
from ..plan.conjuncts import Compare, KernelPredicate, Predicate, Residual, Term
from ..plan.joins import BRANCH_KINDS, Branch, BranchKind, Closest
from ..plan.nodes import (
    Exchange,
    Filter,
    Hints,
    Join,
    JoinNode,
    Node,
    Project,
    Scan,
    in_results,
    own_tree,
    scans,
    source_scan,
)
from ..sql.failing import may_fail
from ..sql.spark_types import UNKNOWN
from .raise_on_pairs import MAY_FAIL
from .rule import beyond_spark


@dataclass(frozen=True)
class JoinTree:
    """A tree of joins: inner joins, and branches that hang on rows of theirs.

    Parameters
    ----------
    sources
        Its inputs in plan order.
    members
        Its joins, from the root down.
    predicates
        The conditions between two inputs, and the residuals of inner joins.
    branches
        As in a `JoinNode`.
    """

    sources: tuple[Node, ...]
    members: tuple[Join, ...]
    predicates: tuple[Predicate, ...]
    branches: tuple[Branch, ...]


def read_tree(root: Node, least: int = 3) -> JoinTree | None:
    """Return the tree of joins that a node is the root of, None if it is none of so many inputs at least."""
    if not isinstance(root, Join) or root.by_spark:
        return None
    sources: list[Node] = []
    members: list[Join] = []
    hanging: list[tuple[Join, str]] = []
    predicates: list[Predicate] = []

    def collect(node: Node) -> None:
        match node:
            case Join() if _is_branch(node):
                members.append(node)
                collect(node.left)
                sources.append(_bare(node.right))
                hanging.append((node, source_scan(node.right).alias))
            case Join(kind="inner" | "cross", by_spark=False):
                members.append(node)
                collect(node.left)
                collect(node.right)
                predicates.extend(node.predicates)
            case Exchange() | Project() if isinstance(node.input, Join | Exchange | Project):
                collect(node.input)
            case Exchange():
                collect(node.input)
            case _:
                sources.append(node)

    collect(root)
    optional = {alias for _, alias in hanging}
    owner = {scan.alias: source_scan(source).alias for source in sources for scan in scans(source)}
    core = set(owner.values()) - optional
    if not hanging or len(sources) < least or not _are_alike(sources):
        return None
    if any(not _owners(predicate.condition, owner) <= core for predicate in predicates):
        return None
    equal = list(_equal(predicates))
    branches = []
    for join, alias in hanging:
        found = _branch(join, alias, owner, core, equal)
        if found is None:
            return None
        branches.append(found[0])
        predicates += found[1]
    return JoinTree(tuple(sources), tuple(members), tuple(predicates), tuple(branches))


def _branch(
    join: Join, alias: str, owner: Mapping[str, str], core: Container[str], equal: Sequence[tuple[Term, Term]]
) -> tuple[Branch, list[KernelPredicate]] | None:
    """Return a join as a branch, and the conditions of its edge; None if it hangs on no one relation of the core.

    Where the core equates two columns, a condition on one of them is one on the other.
    """
    both = [one for one in join.predicates if len(_owners(one.condition, owner)) > 1]
    alone = [one.condition for one in join.predicates if one not in both]
    kernel = [one for one in both if not isinstance(one, Residual)]
    anchors = sorted({owner[one] for one in read_by(join)} - {alias})
    if not kernel or len(kernel) < len(both) or any(one not in core for one in anchors):
        return None
    if join.closest is not None and not _orders(join.closest):
        return None
    if any(may_fail(term.expr) for term in _computed(join, kernel, alias, owner)):
        return None
    closest = join.closest.compared if join.closest is not None else ()
    fixed = {at for term in (*alone, *closest) for at in _owners(term, owner)}
    for anchor in anchors:
        moved = [_moved(one, alias, anchor, owner, equal) for one in kernel]
        if fixed <= {alias, anchor} and None not in moved:
            matching = (dataclasses.replace(one, relations=one.relations or (anchor,)) for one in alone)
            branch = Branch(alias, anchor, cast("BranchKind", join.kind), tuple(matching), join.closest)
            return branch, [one for one in moved if one is not None]
    return None


def _computed(join: Join, kernel: Iterable[KernelPredicate], alias: str, owner: Mapping[str, str]) -> Iterator[Term]:
    """Yield what units need of the core's rows for a join.

    It is computed of all of them, and alone above other joins only of those that these keep: so it must not fail.
    """
    terms = [term for one in kernel for term in one.terms]
    terms += join.closest.compared if join.closest is not None else ()
    terms += (one.condition for one in join.predicates if isinstance(one, Residual))
    yield from (term for term in terms if alias not in _owners(term, owner))


def _moved(
    predicate: KernelPredicate, alias: str, anchor: str, owner: Mapping[str, str], equal: Sequence[tuple[Term, Term]]
) -> KernelPredicate | None:
    """Return a condition with the anchor's columns for those that equal them in the core, None if some equal none."""
    lost = []

    def move(term: Term) -> Term:
        own = _owners(term, owner)
        if own <= {alias} or own == {anchor}:
            return term
        found = next((other for one, other in equal if one == term and _owners(other, owner) == {anchor}), None)
        lost.append(found is None)
        return found or term

    moved = predicate.with_terms(move)
    return None if any(lost) else moved


def _owners(term: Term, owner: Mapping[str, str]) -> set[str]:
    """Return the inputs that a term reads; its relations name the first one of a join's whole left side."""
    return {owner[alias] for alias, _ in term.columns}


def _equal(predicates: Iterable[Predicate]) -> Iterator[tuple[Term, Term]]:
    """Yield the pairs of expressions of one type that equalities of a core make equal, each way and over others too."""
    graph: nx.Graph[Term] = nx.Graph()
    for one in predicates:
        if isinstance(one, Compare) and one.kind == "equi" and one.left.type == one.right.type != UNKNOWN:
            graph.add_edge(one.left, one.right)
    for some in nx.connected_components(graph):
        yield from permutations(sorted(some, key=lambda term: term.sql), 2)


def why_apart(join: Join, hints: Hints) -> str | None:
    """Return why a join above others is a node of its own, None if nothing is below that it could be one node with."""
    below = [one for one in own_tree(join.left) if isinstance(one, JoinNode)]
    if not below or join.kind not in BRANCH_KINDS:
        return None
    if not hints.trees:
        return "the hint NO_JOIN_TREE"
    if not is_plain(join.right):
        return "its right side is a join"
    padded = {scan.alias for scan, null in in_results(join.left) if null}
    read = sorted(read_by(join) - {source_scan(join.right).alias})
    if found := [one for one in read if one in padded]:
        return f"its conditions read {found[0]}, which may be without a row"
    if len(read) > 1:
        return f"its conditions read {' and '.join(read)}: which rows are its partners depends on all of them"
    if tested := [one for one in join.predicates if isinstance(one, Residual) and len(one.relations) > 1]:
        return f"only Spark can evaluate {tested[0].sql}, on pairs of rows"
    if any(may_fail(one.condition.expr) for one in join.predicates):
        return f"{MAY_FAIL}, and is computed of rows alone that the joins below give"
    return None


def _is_branch(join: Join) -> bool:
    """Tell whether a join may be a branch: of streams, one that is marked."""
    may = join.in_tree or (beyond_spark(join) and all(scan.streaming is False for scan in scans(join)))
    return may and join.kind in BRANCH_KINDS and is_plain(join.right)


def _are_alike(sources: list[Node]) -> bool:
    """Tell whether inputs are all streams, perhaps with tables that Spark joins to one of them; or all tables."""
    streaming = [[scan.streaming for scan in scans(source)] for source in sources]
    if all(one == [False] for one in streaming):
        return True
    if any(has_window(source_scan(source)) for source in sources):
        return False  # Spark forgets windows that are equated; units keep them for ever
    return all(first and not any(others) for first, *others in streaming)


def _orders(closest: Closest) -> bool:
    types = closest.left.type, closest.right.type
    return UNKNOWN in types or closest_type(closest, *types) is not None


def read_by(join: Join) -> set[str]:
    """Return the relations that the conditions of a join read."""
    terms = [one.condition for one in join.predicates]
    terms += join.closest.compared if join.closest is not None else ()
    return {alias for term in terms for alias, _ in term.columns}


def is_plain(node: Node) -> bool:
    """Tell whether an input is one relation, perhaps filtered."""
    while isinstance(node, Filter | Exchange | Project):
        node = node.input
    return isinstance(node, Scan)


def _bare(node: Node) -> Node:
    while isinstance(node, Exchange):
        node = node.input
    return node
