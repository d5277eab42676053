"""Show where the binary plan would move rows: an `Exchange` below each side of a join.

Example: ``r JOIN s ON r.a = s.a`` gets ``Exchange hash(r.a)`` and ``Exchange hash(s.a)``; ``r JOIN s ON r.a < s.a`` has
to broadcast one side. These are the hash nodes of 004's plans. The Two-Step Convert has to look through them, and the
single multi-way node needs none of them.
"""

from __future__ import annotations

import dataclasses

from ..plan.conjuncts import KINDS, Compare
from ..plan.nodes import Block, Exchange, Join, Node, Scan, scans
from .rule import NotApplicable, each_block, regions


def place_exchanges(plan: Node) -> Node | NotApplicable:
    """Place the exchanges of a binary execution."""

    def visit(node: Node) -> Node:
        if isinstance(node, Scan) or (isinstance(node, Join) and node.kind not in ("inner", "cross")):
            return node
        if not isinstance(node, Join):
            return node.with_inputs(tuple(map(visit, node.inputs)))
        equal = [p for p in node.predicates if isinstance(p, Compare) and KINDS[p.kind].equal and not p.derived]
        left_names = {scan.alias for scan in scans(node.left)}
        mine = [p if p.relations[0] in left_names else p.mirrored() for p in equal]
        left, right = visit(node.left), visit(node.right)
        if mine:
            left = Exchange(left, tuple(dict.fromkeys(p.left.sql for p in mine)))
        right = Exchange(right, tuple(dict.fromkeys(p.right.sql for p in mine)))
        return dataclasses.replace(node, left=left, right=right)

    def change(block: Block) -> Block:
        return dataclasses.replace(block, input=regions(block.input, visit))

    return each_block(plan, change, "there is no inner join")
