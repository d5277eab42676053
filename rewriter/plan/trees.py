"""Operator trees as nested tuples: which relations of a group are joined before others (002 section 4)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeAlias, TypeVar

Leaf = TypeVar("Leaf", int, str)

#: Stands in the name of an inner node behind that of its tree's root; a number may follow.
INNER = "_inner"

#: The parts of a tree's root, each a relation or again a tree.
TreeOf: TypeAlias = "tuple[Leaf | TreeOf[Leaf], ...]"


def root_of(node: str) -> str:
    """Return the name of the root of the operator tree that a node is in: its own, unless it is an inner one."""
    return node.partition(INNER)[0]


def leaves(tree: TreeOf[Leaf]) -> tuple[Leaf, ...]:
    """Return the relations of a tree from left to right."""
    found: list[Leaf] = []
    for part in tree:
        found += leaves(part) if isinstance(part, tuple) else (part,)
    return tuple(found)


def tree_text(tree: TreeOf[int]) -> str:
    """Return a tree as the option of a decision: ``(0,1),2,(3,4)``."""
    return ",".join(str(part) if isinstance(part, int) else f"({tree_text(part)})" for part in tree)


def order_text(tree: Iterable[str | TreeOf[str]]) -> str:
    """Return names as `read_tree` reads them: ``(s, `the t`), r``."""

    def text(part: str | TreeOf[str]) -> str:
        if isinstance(part, tuple):
            return f"({order_text(part)})"
        return part if re.fullmatch(r"\w+", part) else f"`{part.replace('`', '``')}`"

    return ", ".join(map(text, tree))


def read_tree(text: str) -> TreeOf[str]:
    """Read a tree of names, ``(r, s), (t, u)``; names may stand in backticks.

    Raises
    ------
    ValueError
        The text is not a tree.
    """
    levels: list[list[str | tuple[Any, ...]]] = [[]]
    expected = "part"
    for word in re.findall(r"`(?:[^`]|``)*`|[^\s(),`]+|\S", text):
        if word == "(" and expected == "part":
            levels.append([])
        elif word == ")" and expected == "comma" and len(levels) > 1:
            inner = levels.pop()
            if len(inner) < 2:
                raise ValueError("a node of it has fewer than two parts")
            levels[-1].append(tuple(inner))
        elif word == "," and expected == "comma":
            expected = "part"
        elif word not in "()," and expected == "part":
            levels[-1].append(word[1:-1].replace("``", "`") if word.startswith("`") and len(word) > 2 else word)
            expected = "comma"
        else:
            raise ValueError(f"{word} is out of place")
    if len(levels) != 1 or expected == "part":
        raise ValueError("a parenthesis or a name is missing")
    if len(levels[0]) < 2:
        raise ValueError("a node of it has fewer than two parts")
    return tuple(levels[0])
