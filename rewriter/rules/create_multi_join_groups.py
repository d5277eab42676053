"""Step 1 of the Two-Step Convert: find multi-join groups (004 section 3.2.1, algorithm 2).

The nodes are visited breadth first, so a node comes after those that read it. One that can be a member joins the group
of its readers if all of them are in the same group; else, if it is a join, it is the root of a new group.

Example: ``Join(Exchange(Join(r, s)), t)`` is one group of three members: two joins and the exchange between them.

Joins of other kinds are members of the group of inner joins that they hang on (`join_tree`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from ..plan.nodes import Exchange, Join, JoinGroup, Node, Project, rebuilt
from .mark_join_trees import join_trees, without_marks
from .rule import NotApplicable, beyond_spark

#: The extension point: tells whether a node can be a member of a multi-join group.
Membership = Callable[[Node], bool]


def can_be_member(node: Node) -> bool:
    """Return True for inner joins, and for exchanges and projections over a node that can be a member.

    The paper's example knows joins and hash nodes; section 4.3 adds projections. A join that has to stay with Spark (an
    outer join, one that a hint excludes, one with a static side) is the border of a group.
    """
    match node:
        case Join():
            return node.kind in ("inner", "cross") and not node.by_spark
        case Exchange(input=below) | Project(input=below):
            return can_be_member(below)
    return False


@dataclass(eq=False)
class _Group:
    """The paper's MultiJoinGroup: a root and its members."""

    root: Node
    members: list[Node] = field(default_factory=list)


def create_multi_join_groups(plan: Node, member: Membership = can_be_member) -> Node | NotApplicable:
    """Mark every multi-join group of the plan with a `JoinGroup` node above its root.

    An outer, semi or anti join that Spark cannot run, and that is part of no tree, is a group of its own.
    """
    plan = without_marks(plan)
    trees = join_trees(plan)
    inside = {id(one) for tree in trees.values() for one in tree.members}
    ordered, readers = _breadth_first(plan)
    groups: dict[int, _Group] = {}
    alone: list[_Group] = []
    for node in ordered:
        if id(node) in inside:
            continue
        if beyond_spark(node):
            alone.append(_Group(node, [node]))
        if not member(node):
            continue
        group = _group_of_readers(readers[id(node)], groups)
        if group is not None:
            group.members.append(node)
            groups[id(node)] = group
        elif isinstance(node, Join):
            groups[id(node)] = _Group(node, [node])
    if not groups and not alone and not trees:
        return NotApplicable("no node can be a member of a multi-join group")
    roots = {id(group.root): len(group.members) for group in (*groups.values(), *alone)}

    def marked(old: Node, new: Node) -> Node:
        if id(old) in trees:
            return JoinGroup(new, len(trees[id(old)].members), mixed=True)
        return JoinGroup(new, roots[id(old)]) if id(old) in roots else new

    return rebuilt(plan, marked)


def _breadth_first(plan: Node) -> tuple[list[Node], dict[int, list[Node]]]:
    """Return the nodes in breadth-first order, and for each the nodes that read it."""
    ordered, readers = [plan], {id(plan): []}  # type: tuple[list[Node], dict[int, list[Node]]]
    waiting = deque([plan])
    while waiting:
        node = waiting.popleft()
        for below in node.inputs:
            if id(below) not in readers:
                readers[id(below)] = []
                ordered.append(below)
                waiting.append(below)
            readers[id(below)].append(node)
    return ordered, readers


def _group_of_readers(readers: list[Node], groups: dict[int, _Group]) -> _Group | None:
    """Algorithm 2's canBeInSameGroupWithOutputs."""
    if not readers:
        return None
    first = groups.get(id(readers[0]))
    if first is None or any(groups.get(id(reader)) is not first for reader in readers):
        return None
    return first
