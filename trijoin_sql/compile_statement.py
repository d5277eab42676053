"""A rewritten statement becomes a DataFrame: its join nodes from the bottom up, then the rest of the SELECT over them.

What the types of columns turn out not to allow is planned again without it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from .operators.compile.compiling import Compiling, NotAsPlannedError, sql_over
from .operators.compile.node import compile_join
from .rewriter.event_time.bounds import unbounded
from .rewriter.options import Settings
from .rewriter.pipeline import Rewrite, rewrite
from .rewriter.plan.nodes import JoinNode, LeftAlone, walk
from .rewriter.plan.stored import Stored
from .rewriter.sql.arguments import Arguments
from .rewriter.sql.hints import with_plain_joins
from .rewriter.sql.statement import Statement
from .running.known_joins import Registered, next_number
from .running.listener import register, tell_of_tables
from .settings import warm_bytes
from .spark.flags import Setting
from .spark.liberties import FREEZE_IMPORTS, taken
from .spark.plan_joins import in_users_words
from .spark.session_catalog import SparkCatalog

_log = logging.getLogger("trijoin_sql")


@dataclass(frozen=True, slots=True)
class Planned:
    """A rewritten statement, and the arguments of `rewrite` that it was rewritten with."""

    statement: str | Statement
    arguments: Arguments
    catalog: SparkCatalog
    settings: Settings
    rewritten: Rewrite

    @classmethod
    def of(cls, statement: str | Statement, arguments: Arguments, catalog: SparkCatalog, settings: Settings) -> Planned:
        """Rewrite a statement; see `rewrite` for what is raised."""
        return cls(statement, arguments, catalog, settings, rewrite(statement, catalog, settings, arguments))

    def without(self, error: NotAsPlannedError) -> Planned:
        """Rewrite the statement again, without what types do not allow."""
        if error.conjunct is None:
            settings = replace(self.settings, aggregate_in_units=False)
            _log.warning("aggregated by Spark alone: %s", error)
        else:
            settings = replace(self.settings, left_to_spark=self.settings.left_to_spark | {error.conjunct})
        if settings == self.settings:  # a bug of ours
            raise error
        return Planned.of(self.statement, self.arguments, self.catalog, settings)


@dataclass(frozen=True, slots=True)
class Ran:
    """A statement that was run: its rows, how it was rewritten, and its number among those with joins of ours."""

    frame: DataFrame
    rewritten: Rewrite | None = None
    number: int | None = None

    @property
    def groups(self) -> tuple[JoinNode | LeftAlone, ...]:
        """The join groups of the statement."""
        return () if self.rewritten is None else self.rewritten.groups

    @property
    def cautions(self) -> tuple[str, ...]:
        """What its writer should hear when it starts."""
        return () if self.rewritten is None else self.rewritten.cautions


def compile_statement(
    spark: SparkSession, planned: Planned, get: Setting, *, warns: bool, late_rows: bool = False
) -> Ran:
    """Compile a statement whose joins are ours.

    ``warns`` tells whether its start warns of rows kept for ever, ``late_rows`` whether late rows can be asked for.
    """
    while True:
        number = next_number()
        try:
            return Ran(
                _compiled(spark, planned, get, number, warns=warns, late_rows=late_rows), planned.rewritten, number
            )
        except NotAsPlannedError as error:
            planned = planned.without(error)


def _compiled(
    spark: SparkSession, planned: Planned, get: Setting, number: int, *, warns: bool, late_rows: bool
) -> DataFrame:
    rewritten, plan = planned.rewritten, planned.rewritten.plan
    assert plan is not None
    frames: dict[str, DataFrame] = dict(planned.catalog.frames)
    arguments, units = rewritten.named(planned.arguments), planned.settings.parallelism or 1
    together = all(one.together for one in planned.settings.stored)  # of a checkpoint, whose sources are numbered
    compiling = Compiling(
        spark,
        frames,
        arguments,
        number,
        units,
        warm_bytes(get),
        taken(FREEZE_IMPORTS, get),
        late_rows,
        together,
        planned.settings.ansi,
    )
    groups = {group.name: group for group in rewritten.groups if isinstance(group, JoinNode)}
    joins: list[Registered] = []
    for node in reversed(list(walk(plan))):
        if isinstance(node, JoinNode) and node.name not in frames:
            compiled = compile_join(compiling, node)
            frames[node.name], group = compiled.frame, groups.get(node.name)
            fixed = None if compiled.spec.may_change else node.decision.units or units
            stored = () if group is None else (Stored.of(group, fixed, together=together),)
            said = [unbounded(node.retention), *(() if joins else rewritten.cautions)] if warns else []
            told = tuple(in_users_words(one) for one in said if one)
            joins.append(
                Registered(compiled.spec, stored, node.decision.units_from, told, warns, compiled.late, compiled.again)
            )
    result = compiling.run_sql(plan.sql)
    if result.isStreaming:
        register(spark, joins)
    else:
        tell_of_tables(spark, (stream.alias for one in joins for stream in one.spec.streams))
    # Spark names the columns: users see its names for expressions.
    asked = rewritten.spark_arguments(planned.arguments)
    asked_sql = rewritten.spark_sql
    if any(node.looks for node in walk(plan) if isinstance(node, JoinNode)):
        asked_sql = with_plain_joins(asked_sql)
    original = sql_over(spark, asked_sql, asked, planned.catalog.frames)
    ours, theirs = (", ".join(one.dataType.simpleString() for one in frame.schema) for frame in (result, original))
    if ours != theirs:  # something was misread
        _log.warning("its columns are %s, to Spark %s: a bug of TriJoin SQL, please report the query", ours, theirs)
        if not original.isStreaming:
            return original
    return result.toDF(*original.columns)
