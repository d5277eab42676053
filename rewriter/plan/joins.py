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
NodeKind = Literal["inner", "left", "right", "full", "semi", "anti", "closest", "left_closest"]
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
