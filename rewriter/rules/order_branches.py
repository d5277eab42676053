"""Join what hangs on one relation of a core before what hangs on several, so that all of the former is one node.

In ``r JOIN s LEFT JOIN a ON a.x > r.x + s.x LEFT JOIN b ON b.k = s.k`` only ``b`` can be a branch of a tree of joins
(`join_tree`), and ``a`` stands between it and the core. What a branch has for a row of the core does not depend on the
other one: LEFT and closest joins repeat the row, SEMI and ANTI joins keep it or not. So they change places.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..plan.joins import BRANCH_KINDS
from ..plan.nodes import Join, Node, scans, transform
from .join_tree import read_by, read_tree
from .rule import NotApplicable


def order_branches(plan: Node) -> Node | NotApplicable:
    """Put the joins that may be branches of a tree below those above the same core that may not."""
    changed = transform(plan, _ordered)
    return NotApplicable("no branch of a tree stands above a join that is none") if changed is plan else changed


def _ordered(node: Node) -> Node:
    """Return the joins above one core in order, if some of them become one node so."""
    chain: list[Join] = []
    base = node
    while isinstance(base, Join) and base.in_tree and base.kind in BRANCH_KINDS:
        chain.insert(0, base)
        base = base.left
    hangs = [_hangs(one, base) for one in chain]
    if hangs == sorted(hangs, reverse=True):
        return node
    tree = _above(base, [one for one, may in zip(chain, hangs, strict=True) if may])
    if read_tree(tree) is None:
        return node
    return _above(tree, [one for one, may in zip(chain, hangs, strict=True) if not may])


def _hangs(join: Join, base: Node) -> bool:
    """Tell whether a join may be a branch of a tree right above a core."""
    alone = dataclasses.replace(join, left=base)
    return read_by(join) <= {scan.alias for scan in scans(alone)} and read_tree(alone, least=2) is not None


def _above(base: Node, joins: Iterable[Join]) -> Node:
    for one in joins:
        base = dataclasses.replace(one, left=base)
    return base
