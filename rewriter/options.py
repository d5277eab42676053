"""What a caller can set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..errors import InvalidSettingError
from .plan.conjuncts import KINDS
from .plan.stored import Stored

#: Which joins of tables are ours: those that Spark would try all pairs of rows for, all, or none.
Tables = Literal["theta", "all", "none"]

#: The most units of a group: more than any cluster has cores, and few enough to list the cells of every grid.
MOST_UNITS = 100_000


@dataclass(frozen=True)
class CostDefaults:
    """What is assumed where neither statistics nor a declaration say otherwise.

    Parameters
    ----------
    rate
        Rows a second of a stream; rows of a table.
    selectivity
        By kind of predicate: the share of pairs that match.
    partners
        The rows of another stream that a row finds, at most, by an equality or a band: keys grow with the history.
    keep_for
        Seconds of history that memory is estimated for where nothing bounds it.
    stage, unit
        Microseconds a second that a trigger takes however few its rows are: for each stage, and for each unit.
    taken, sent, compared, listed, stored
        Microseconds of one core for a row that is read, computed and stored, a row sent, a comparison, a result; and
        what a second of keeping a row counts for. ``python -m tests.bench calibrate`` measures all of them, and the
        settings ``spark.trijoin.cost.NAME`` have precedence.
    advised
        By which factor another scheme has to look cheaper, where rows are not known, to be worth a sentence.
    """

    rate: float = 1000.0
    selectivity: tuple[tuple[str, float], ...] = tuple(
        (kind, record.selectivity) for kind, record in KINDS.items() if record.selectivity is not None
    )
    partners: float = 10.0
    keep_for: float = 3600.0
    stage: float = 130_000.0
    unit: float = 5_000.0
    taken: float = 10.0
    sent: float = 0.5
    compared: float = 0.03
    listed: float = 1.0
    stored: float = 0.001
    advised: float = 1.75


@dataclass(frozen=True)
class Settings:
    """Settings of the rewriter.

    Parameters
    ----------
    case_sensitive
        ``spark.sql.caseSensitive``.
    units
        Units of a stream's group where no hint sets them.
    parallelism
        The tasks that Spark runs side by side: the units of a group where neither a hint nor `units` says it and rows
        are not known, and the most that cost chooses where they are.
    join_before_comma
        ``spark.sql.ansi.relationPrecedence``: whether JOIN has precedence over the comma. By default they are equal.
    aggregate_in_units
        Whether units reduce their results where the SELECT aggregates.
    tables
        Which joins of tables are ours.
    ansi
        ``spark.sql.ansi.enabled``.
    chars_padded
        Whether values of CHAR columns need no padding but to another column's length: ``spark.sql.readSideCharPadding``
        has padded them, or ``spark.sql.legacy.noCharPaddingInPredicate`` keeps them as they are.
    zone_shift
        How far a difference on the wall clock of the session's time zone can be from elapsed time, in microseconds.
    watermarks
        Where watermarks can be held back: in Spark's ``plan`` of an input, in its ``text`` where that declares one, or
        nowhere (``none``).
    costs
        Assumptions of the cost model.
    elastic
        Whether cost leaves out the schemes whose units cannot change at a restart, because units will change.
    stored
        How the checkpoint that the query will restart on stores rows; empty if there is none, or it is not known.
    strict
        Whether queries are refused whose joins of streams keep rows for ever or make cross products (`strict`).
    left_to_spark
        Conjuncts that are residuals whatever they look like: their sides turned out to have types that do not compare.
    trees
        Whether joins of several kinds may be one node.
    seen
        The shares of pairs that were observed to match, by `plan.stored.edge_key`.
    ask
        Answers the types of expressions that are not modelled here (`sql.catalog.TypesOf`): the catalog.
    """

    case_sensitive: bool = False
    join_before_comma: bool = False
    units: int | None = None
    parallelism: int | None = None
    aggregate_in_units: bool = True
    tables: Tables = "theta"
    ansi: bool = True
    chars_padded: bool = True
    zone_shift: int = 86_400_000_000
    watermarks: Literal["plan", "text", "none"] = "plan"
    costs: CostDefaults = field(default_factory=CostDefaults)
    elastic: bool = False
    stored: tuple[Stored, ...] = ()
    strict: bool = False
    left_to_spark: frozenset[str] = frozenset()
    trees: bool = True
    seen: Mapping[tuple[str, ...], float] = field(default_factory=dict, compare=False)
    ask: Callable[[Sequence[str], Mapping[tuple[str, str], str]], Sequence[str]] | None = field(
        default=None, compare=False
    )

    def __post_init__(self) -> None:
        if self.units is not None and not 1 <= self.units <= MOST_UNITS:
            raise InvalidSettingError(
                "spark.trijoin.units", self.units, f"it takes a whole number from 1 to {MOST_UNITS}"
            )


#: What is assumed without settings.
DEFAULTS = Settings()
