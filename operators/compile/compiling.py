"""What the join nodes of a statement are compiled with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ...errors import PlanError
from ...rewriter.plan.nodes import JoinNode
from ..spec import RUN

#: Spark's tokens as far as a name could be in them, literals and comments first: a literal may say what a name says.
_TOKENS = re.compile(
    r"""(?<!\w)r'[^']*'|(?<!\w)r"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|--[^\n]*|/\*.*?\*/|\w+""",
    re.IGNORECASE | re.DOTALL,
)


class NotAsPlannedError(PlanError):
    """Spark's types, which the planner did not know, rule out a part of the plan. Planned without it, the query runs.

    Parameters
    ----------
    reason
        Why that part cannot run.
    conjunct
        The part, as the user wrote it: Spark has to evaluate it instead of the kernel. None stands for the aggregation.
    """

    def __init__(self, reason: str, conjunct: str | None = None) -> None:
        super().__init__(reason)
        self.conjunct = conjunct


@dataclass(frozen=True, slots=True)
class Compiling:
    """A statement while its join nodes are compiled.

    Parameters
    ----------
    spark
        The session, classic or Connect.
    below
        The outputs of the join nodes that are compiled already, by name.
    arguments
        Values of the SQL parameters (``:name``).
    number
        The statement's number, unique in the process.
    units
        Units in a group where a node does not say.
    warm_bytes
        Bytes that the warm copies of a machine may take.
    freezes
        Whether workers may keep what they have imported out of garbage collection.
    late_rows
        Whether late rows can be asked for.
    together
        Whether a source is read once for all of its aliases: not for a checkpoint from before that was so.
    ansi
        Whether arithmetic raises where it overflows.
    """

    spark: SparkSession
    below: Mapping[str, DataFrame]
    arguments: Mapping[str, Any] | None = None
    number: int = 0
    units: int = 1
    warm_bytes: int | None = None
    freezes: bool = False
    late_rows: bool = False
    together: bool = True
    ansi: bool = True

    def key(self, node: JoinNode) -> str:
        """Return the name of a node's join in this process: for its checkpoint, and for the counters of its slots."""
        return f"{node.name}{RUN}{self.number}"

    def run_sql(self, text: str) -> DataFrame:
        """Let Spark run SQL that may refer to the outputs of join nodes by their (quoted) names."""
        return sql_over(self.spark, text, dict(self.arguments) if self.arguments else None, self.below)


def sql_over(spark: SparkSession, text: str, arguments: Any, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Let Spark run SQL, even if the session is extended.

    Parameters
    ----------
    spark
        The session.
    text
        It may refer to the frames by their (quoted) names, which are words.
    arguments
        Values of the SQL parameters, by name or by position, None if there are none.
    frames
        DataFrames by name.
    """
    sql, used = type(spark).sql, dict[str, DataFrame]()

    def in_braces(found: re.Match[str]) -> str:
        name = found[0].strip("`")
        if name not in frames or not name.isidentifier() or found[0][0] in "'\"":
            return found[0]
        used[name] = frames[name]
        return f"{{{name}}}"

    given = _TOKENS.sub(in_braces, text.replace("{", "{{").replace("}", "}}")) if frames else text
    if not used:
        return sql(spark, text) if arguments is None else sql(spark, text, args=arguments)
    return sql(spark, given, args=arguments, **used)
