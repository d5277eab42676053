"""Joins of streams in a plan as Spark Connect prints it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from trijoin_sql.errors import NotProvenError
from trijoin_sql.spark.unproven import refuse_spark_joins

PLAN = """\
== Parsed Logical Plan ==
'Project ['r.id]
+- 'Join Inner, ('r.a = 's.a)

== Analyzed Logical Plan ==
id: bigint
~Project [id#55L]
+- ~Join LeftOuter, (a#56 = a#63)
   :- ~SubqueryAlias r
   :  +- View (`stream_r`, [id#55L, a#56])
   :     +- StreamingRelation FileSource[/tmp/r], [id#55L, a#56], name=<Unassigned>
   +- ~SubqueryAlias s
      +- View (`stream_s`, [id#62L, a#63])
         +- StreamingRelation FileSource[/tmp/s], [id#62L, a#63], name=<Unassigned>

== Optimized Logical Plan ==
"""


def shown(plan: str) -> Any:
    return cast(Any, SimpleNamespace(_explain_string=lambda extended: plan))


def test_a_join_of_two_streams_is_refused() -> None:
    with pytest.raises(NotProvenError, match=r"a join \(LEFT\) of streams"):
        refuse_spark_joins(shown(PLAN))


def test_a_join_with_a_table_is_not() -> None:
    plan = PLAN.replace("StreamingRelation FileSource[/tmp/s]", "Relation [id#62L]")
    assert refuse_spark_joins(shown(plan)) is None, "it raises nothing"
