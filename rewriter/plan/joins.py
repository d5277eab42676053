"""How the inputs of a join are joined: the kinds of joins, and which rows are the closest ones.

It imports only the standard library, as `nodes` does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from .conjuncts import Term

JoinKind = Literal["inner", "cross", "left", "right", "full", "semi", "anti", "closest", "left_closest"]
#: What a join node joins its inputs by.
NodeKind = Literal["inner", "left", "right", "full", "semi", "anti", "closest", "left_closest", "mixed"]
#: What a branch of a ``mixed`` join hangs on its core by.
BranchKind = Literal["left", "semi", "anti", "closest", "left_closest"]
#: The kinds of joins that may be branches.
BRANCH_KINDS: tuple[BranchKind, ...] = ("left", "semi", "anti", "closest", "left_closest")
#: What people call a join of a kind.
KINDS_OF_JOINS: dict[str, str] = {
    "inner": "an inner join",
    "left": "a left outer join",
    "right": "a right outer join",
    "full": "a full outer join",
    "semi": "a semi join",
    "anti": "an anti join",
    "closest": "a join with the closest rows",
    "left_closest": "a left outer join with the closest rows",
    "mixed": "a tree of joins of several kinds",
}
#: Which of its two inputs a join of a kind fills with NULL, where a row of the other has no partner.
PADDED: dict[str, tuple[int, ...]] = {"left": (1,), "left_closest": (1,), "right": (0,), "full": (0, 1)}
#: How SQL begins a join of a kind that it names.
JOIN_WORDS: dict[str, str] = {
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "LEFT SEMI JOIN",
    "anti": "LEFT ANTI JOIN",
    "closest": "JOIN with the closest rows",
    "left_closest": "LEFT JOIN with the closest rows",
}


@dataclass(frozen=True, slots=True)
class Closest:
    """Which partners of a row of a join's left input are results: the closest ones.

    Parameters
    ----------
    left, right
        What is compared: an expression over each input.
    by
        The ``greatest`` or the ``least`` value of ``right`` is closest (ASOF JOIN), or the one at the least
        ``distance`` from that of ``left`` (NEAREST BY).
    condition
        What MATCH_CONDITION or BY says of rows of both inputs.
    count
        How many partners at most.
    approximate, similarity
        The words of NEAREST BY.
    latest
        Whether a row is of no more use when the watermark has passed a later one with the same key.
    wraps
        Whether a distance of integers that leaves their type wraps around, instead of being an error (ANSI mode).
    """

    left: Term
    right: Term
    by: Literal["greatest", "least", "distance"]
    condition: Term
    count: int = 1
    approximate: bool = False
    similarity: bool = False
    latest: bool = False
    wraps: bool = False

    @property
    def sql(self) -> str:
        """The clause that says so."""
        if self.by != "distance":
            return f"MATCH_CONDITION ({self.condition.sql})"
        how = "APPROX" if self.approximate else "EXACT"
        return f"{how} NEAREST {self.count} BY {'SIMILARITY' if self.similarity else 'DISTANCE'} {self.condition.sql}"

    @property
    def compared(self) -> tuple[Term, Term]:
        """The expressions that are compared."""
        return self.left, self.right

    def with_terms(self, change: Callable[[Term], Term]) -> Closest:
        """Return the same with other terms."""
        left, right, condition = map(change, (self.left, self.right, self.condition))
        return replace(self, left=left, right=right, condition=condition)


@dataclass(frozen=True, slots=True)
class Branch:
    """A join of a ``mixed`` node that is not inner: a relation whose rows hang on those of one relation of the core.

    Its conditions read these two relations only. So which rows of it are partners does not depend on the other joins.

    Parameters
    ----------
    relation, anchor
        The relation, and that of the core.
    kind
        Of join, with the core on its left.
    matching
        The conditions of ON over one of the two: a row for which one is not true has no partner.
    closest
        Which partners are results, None if all are.
    """

    relation: str
    anchor: str
    kind: BranchKind
    matching: tuple[Term, ...] = ()
    closest: Closest | None = None

    @property
    def pads(self) -> bool:
        """Whether a row of the core without a partner is in results, with NULLs."""
        return self.kind in ("left", "left_closest")

    @property
    def is_listed(self) -> bool:
        """Whether results have columns of the relation."""
        return self.kind not in ("semi", "anti")

    @property
    def waits(self) -> bool:
        """Whether a result may have to wait until no other partner can come."""
        return self.kind != "semi"

    def with_terms(self, change: Callable[[Term], Term]) -> Branch:
        """Return the same with other terms."""
        closest = None if self.closest is None else self.closest.with_terms(change)
        return replace(self, matching=tuple(map(change, self.matching)), closest=closest)

    @property
    def sql(self) -> str:
        """What it is, in a line of EXPLAIN."""
        said = [f"{join_words(self.kind, self.closest)} {self.relation} on a row of {self.anchor}"]
        said += [self.closest.sql] if self.closest is not None else []
        said += [f"matching only where {one.sql}" for one in self.matching]
        return ", ".join(said)


def written(kind: str, closest: Closest | None) -> str:
    """Return how a join of a kind that SQL names may begin in a statement: phrases for `sql.places.place_of`."""
    words = join_words(kind, closest)
    return "NEAREST" if words.endswith("NEAREST JOIN") else f"{words}|{words.replace(' JOIN', ' OUTER JOIN')}"


def join_words(kind: str, closest: Closest | None) -> str:
    """Return how SQL begins a join of a kind that it names."""
    if closest is None:
        return JOIN_WORDS[kind]
    words = "NEAREST JOIN" if closest.by == "distance" else "ASOF JOIN"
    return f"LEFT {words}" if kind == "left_closest" else words
