"""Mark the joins of streams that may become one node with those below them (`join_tree`).

Conditions of joins that are ours are classified and pushed down, so this comes first. The Two-Step Convert takes the
mark from what turns out to be in no tree.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from ..options import Settings
from ..plan.joins import BRANCH_KINDS
from ..plan.nodes import Block, Join, Node, Scan, own_tree, rebuilt, scans, source_scan, walk
from .join_tree import JoinTree, is_plain, read_by, read_tree
from .rule import NotApplicable


def mark_join_trees(plan: Node, settings: Settings) -> Node | NotApplicable:
    """Mark joins of streams that may be branches, also those that Spark could run alone."""
    if not settings.trees:
        return NotApplicable("each join that is not inner is a node of its own")
    marked = {id(join) for block in _blocks(plan) for join in _may_be_branches(block.input, settings)}
    if not marked:
        return NotApplicable("no outer, semi, anti or closest join of streams hangs on rows of other joins")
    return _with_marks(plan, lambda join: id(join) in marked)


def join_trees(plan: Node) -> dict[int, JoinTree]:
    """Return the largest trees of joins, by the ``id`` of their roots: their conditions are classified now."""
    found: dict[int, JoinTree] = {}

    def visit(node: Node) -> None:
        tree = read_tree(node)
        if tree is None:
            for below in node.inputs if not isinstance(node, Scan) else ():
                visit(below)
        else:
            found[id(node)] = tree

    for block in _blocks(plan):
        visit(block.input)
    return found


def without_marks(plan: Node) -> Node:
    """Take the marks from joins that are in no tree."""
    inside = {id(member) for tree in join_trees(plan).values() for member in tree.members}
    return _with_marks(plan, lambda join: join.in_tree and id(join) in inside)


def _blocks(plan: Node) -> Iterator[Block]:
    """Yield the SELECTs whose joins may become one node."""
    for block in walk(plan):
        if isinstance(block, Block) and block.problem is None:
            hints = block.hints
            by_pairs = hints.relations or hints.routing or hints.intermediates
            if hints.convert and hints.trees and not by_pairs and hints.scheme in (None, "matrix", "iterative"):
                yield block


def _may_be_branches(node: Node, settings: Settings, above: bool = False) -> Iterator[Join]:
    """Yield the joins of streams that may be branches of a tree; ``above``: whether another join is over a node."""
    if isinstance(node, Scan):
        return
    if isinstance(node, Join):
        alone = not above and not any(isinstance(one, Join) for one in own_tree(node.left))
        if not alone and _hangs(node) and not _was_apart(node, settings):
            yield node
        inside = node.kind in BRANCH_KINDS or node.kind in ("inner", "cross")
        yield from _may_be_branches(node.left, settings, inside)
        yield from _may_be_branches(node.right, settings, node.kind in ("inner", "cross"))
        return
    for below in node.inputs:
        yield from _may_be_branches(below, settings, above)


def _hangs(join: Join) -> bool:
    """Tell whether a join of streams reads rows of others beside its own, which it does not pad."""
    if join.kind not in BRANCH_KINDS or join.by_spark or not is_plain(join.right):
        return False
    right = source_scan(join.right)
    if not right.streaming or not any(scan.streaming for scan in scans(join.left)):
        return False
    return bool(read_by(join) - {right.alias})


def _was_apart(join: Join, settings: Settings) -> bool:
    """Tell whether the checkpoint that a query restarts on was written by a version that had a stage for each join."""
    alias = source_scan(join.right).alias.lower()
    whole = (one for one in settings.stored if len(one.relations) > 2)
    return bool(settings.stored) and not any(alias in map(str.lower, one.relations) for one in whole)


def _with_marks(plan: Node, in_tree: Callable[[Join], bool]) -> Node:
    """Return a plan in which those joins have a mark for which a function says so."""

    def change(old: Node, new: Node) -> Node:
        if isinstance(old, Join) and isinstance(new, Join):
            return dataclasses.replace(new, in_tree=in_tree(old))
        return new

    return rebuilt(plan, change)
