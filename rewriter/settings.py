"""What a caller can set about rewriting."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..errors import InvalidSettingError


@dataclass(frozen=True)
class CostDefaults:
    """What is assumed where neither statistics nor a declaration say it.

    Parameters
    ----------
    rate
        Rows a second of a stream; rows of a table.
    selectivity
        By kind of predicate: the share of pairs that match.
    keep_for
        Seconds of history that memory is estimated for where nothing bounds it.
    stage
        The cost of one stage more, in rows sent: an idle trigger takes 140 ms longer with two stages than with one.
    alike, guessed
        Costs that differ by no more than this factor are not told apart: where all rows are known, and where not.
    """

    rate: float = 1000.0
    selectivity: tuple[tuple[str, float], ...] = (
        ("equi", 0.001),
        ("null_safe", 0.001),
        ("band", 0.001),
        ("range", 0.33),
        ("not_equal", 0.9),
    )
    keep_for: float = 3600.0
    stage: float = 50_000.0
    alike: float = 3.0
    guessed: float = 10_000.0


@dataclass(frozen=True)
class Settings:
    """Settings of the rewriter.

    Parameters
    ----------
    case_sensitive
        ``spark.sql.caseSensitive``.
    units
        Units a stream's group where no hint says it.
    join_before_comma
        ``spark.sql.ansi.relationPrecedence``: whether JOIN goes before the comma. To Spark they are alike by default.
    min_relations
        Groups of fewer relations are left alone.
    convert_batch
        Whether groups without any stream are converted too.
    disabled_rules
        Names of stages to leave out.
    aggregate_in_units
        Whether units reduce their results where the SELECT aggregates.
    ansi
        ``spark.sql.ansi.enabled``.
    zone_shift
        How far a difference on the wall clock of the session's time zone can be from elapsed time, in microseconds.
    costs
        Assumptions of the cost model.
    """

    case_sensitive: bool = False
    join_before_comma: bool = False
    units: int | None = None
    min_relations: int = 2
    convert_batch: bool = True
    disabled_rules: tuple[str, ...] = ()
    aggregate_in_units: bool = True
    ansi: bool = True
    zone_shift: int = 86_400_000_000
    costs: CostDefaults = field(default_factory=CostDefaults)

    def __post_init__(self) -> None:
        if self.min_relations < 2:
            raise InvalidSettingError("min_relations", self.min_relations, "it takes a whole number from 2 up")
        if self.units is not None and self.units < 1:
            raise InvalidSettingError("units", self.units, "it takes a whole number from 1 up")


#: What is assumed without settings.
DEFAULTS = Settings()
