"""How a join group will run, and why: its scheme, units and costs, in the plan and in the document that EXPLAIN draws.

It imports only the standard library, as `nodes` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .json_codec import ALWAYS, HIDDEN, Json
from .parts import RowsFrom
from .trees import TreeOf, leaves, order_text, tree_text

#: How rows go to units of their own stream's group.
Routing = Literal["random", "hash", "contrand", "range"]
#: The names of our nodes, by the number of inputs.
NodeName = Literal["TriJoin", "MultiJoin", "BiJoin", "none"]


@dataclass(frozen=True, slots=True)
class Cost:
    """The estimated cost of a scheme per second of stream time (rows sent, rows kept, comparisons), and its stages."""

    network: float
    memory: float
    cpu: float
    stages: int


@dataclass(frozen=True, slots=True)
class Alternative:
    """One scheme or operator tree that was considered.

    Parameters
    ----------
    scheme
        Its name.
    cost
        What it costs, in the number of units in which that is least.
    chosen
        Whether it runs.
    total
        By what schemes are compared: milliseconds that Spark is busy for a second of stream time, units side by side.
    untaken
        Why cost does not choose it, in a few words; None if it may.
    """

    scheme: str
    cost: Cost
    chosen: bool = field(default=False, metadata=ALWAYS)
    total: float | None = None
    untaken: str | None = None


@dataclass(frozen=True, slots=True)
class InputRate:
    """The rows of one input that costs are estimated for.

    Parameters
    ----------
    alias
        The input.
    rows
        Rows a second of a stream, rows of a table.
    streaming
        Whether it counts as a stream.
    rows_from
        Where this number comes from.
    """

    alias: str
    rows: float
    streaming: bool
    rows_from: RowsFrom


@dataclass(frozen=True, slots=True)
class Selectivity:
    """The share of the pairs of rows of two relations that match, for which costs are estimated, and who says so.

    With `key` the conditions between the two are known in other plans (`stored.edge_key`).
    """

    left: str
    right: str
    share: float
    share_from: RowsFrom
    key: tuple[str, ...] = field(default=(), compare=False, metadata=HIDDEN)


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of a grid of cells.

    Parameters
    ----------
    relations
        The aliases whose rows have a place along it, in plan order; all other rows are copied along it.
    key
        The expression of each of them that its rows are placed by; None if the rows of one relation are spread evenly.
    shares
        Cells along it.
    home
        None if rows are hashed. Else values are cut into ranges: the relation whose rows lie in the range of their own
        value; rows of the others go to each range in which they may find a partner (nearly always one, else two).
    """

    relations: tuple[str, ...]
    key: tuple[str, ...] | None
    shares: int
    home: str | None = None


@dataclass(frozen=True, slots=True)
class SchemeOptions:
    """What a scheme is told besides its units; nothing where it does not have such a choice.

    Parameters
    ----------
    pairs
        Whether ``symmetric`` and ``semi_symmetric`` store intermediates as pairs instead of packs.
    routing, subgroups
        How rows go to units (003 section 3.2).
    tree
        For ``operator_tree``: the tree over the numbers of the group's relations. For ``tree``: the order in which they
        are joined, if it is not their own.
    """

    pairs: bool = False
    routing: Routing | None = None
    subgroups: int | None = None
    tree: TreeOf[int] = ()

    def shown(self, relations: Sequence[str]) -> dict[str, str]:
        """Return the options as EXPLAIN and fingerprints have them, by name."""
        flat = all(isinstance(part, int) for part in self.tree)
        found = {
            "intermediates": "pair" if self.pairs else None,
            "routing": self.routing,
            "subgroups": None if self.subgroups is None else str(self.subgroups),
            "order": order_text(relations[int(one)] for one in leaves(self.tree)) if self.tree and flat else None,
            "tree": None if flat else tree_text(self.tree),
        }
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Decision:
    """How a group will run, and why: in the plan, and in the document that EXPLAIN draws.

    Parameters
    ----------
    node
        The physical node, ``"none"`` if the group is left to Spark.
    scheme
        One of `operators.schemes`: ``symmetric``, ``semi_symmetric``, ``biclique``, ``tree``, ``matrix``, ...
    units
        Units of a stream's group; cells for ``matrix``. With None the operators use their default.
    options
        What else the scheme is told.
    expected
        Estimates for the chosen scheme, as ``(name, number)``: rows and results a second, rows kept. A running query
        shows its own numbers beside these.
    units_reason
        Why there are this many units.
    rates
        The rows of each input that costs were estimated for, and where these numbers come from.
    selectivities
        What costs take the conditions between two relations to let match.
    advice
        What to declare or hint so that a scheme that looks much cheaper runs; for a checkpoint that keeps its scheme,
        that scheme.
    from_checkpoint
        Whether scheme and units are those that a checkpoint stores rows by.
    units_from
        What chose the units: ``cost``, whose choice gives way to a checkpoint's, ``the hint`` or ``the setting``, which
        do not, ...
    unscaled
        Where scaling is on: why it leaves these units alone, and what it would scale.
    probes
        For ``matrix`` and ``iterative``: the relations that the rows of each one probe, one after the other.
    sources
        Where selectivities were declared: likewise, by which of the relations joined before each of these is searched.
        The operators choose by the kinds of conditions otherwise.
    shown, grid
        In the document only: the options by name, and the grid of a ``matrix``.
    """

    node: NodeName
    scheme: str | None
    units: int | None
    reason: str
    alternatives: tuple[Alternative, ...] = field(default=(), metadata=ALWAYS)
    options: SchemeOptions = field(default=SchemeOptions(), metadata=HIDDEN)
    expected: tuple[tuple[str, float], ...] = field(default=(), metadata=ALWAYS)
    units_reason: str | None = field(default=None, metadata=ALWAYS)
    rates: tuple[InputRate, ...] = field(default=(), metadata=ALWAYS)
    advice: str | None = field(default=None, metadata=ALWAYS)
    from_checkpoint: bool = field(default=False, metadata=ALWAYS)
    units_from: str = field(default="", metadata=HIDDEN)
    unscaled: str | None = None
    probes: tuple[tuple[str, tuple[str, ...]], ...] = ()
    sources: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), metadata=HIDDEN)
    selectivities: tuple[Selectivity, ...] = ()
    shown: tuple[tuple[str, Json], ...] = field(default=(), metadata={**ALWAYS, "key": "options"})
    grid: tuple[Dimension, ...] = ()

    @property
    def left_to_spark(self) -> bool:
        """Whether Spark, and not a node of ours, runs the group."""
        return self.node == "none"

    def option(self, name: str) -> Json:
        """Return a shown option of the scheme, None if it is not set."""
        return dict(self.shown).get(name)


#: That of a node until `rules.choose_schemes` has decided.
UNDECIDED = Decision("none", None, None, "not decided yet")
