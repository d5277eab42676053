"""A part of the corpus of streaming SQL with state around a join; `corpus` runs all of it (``make fuzz``)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import trijoin_sql

from .corpus import Case, cases, late_verdict, verdict

#: Every shape once, and the ones that lost rows in silence before.
CHOSEN = (
    "window r / band, later",
    "window s / equal, earlier",
    "distinct r / band, around",
    "left by r / band, later",
    "left by s / equal, later",
    "full / band, earlier",
    "nullable / band, around",
    "two windows / band, later",
    "beside / band, earlier",
    "then left join / band, later",
    "then within watermark / band, later",
    "view, theta join / band, later",
    "view, window / equal, later",
    "views, window above a third / band, around",
    "views, left join / band, later",
    "below windows / a.k <= s.k",
    "below window above windows / a.k = s.k",
    "below outer / ABS(a.x - s.x) <= 2",
    "three: window r, /*+ SCHEME('semi_symmetric'), UNITS(3) */",
    "three: window t, /*+ SCHEME('operator_tree((r, s), t)') */",
    "three: group above a group",
    "update, window r",
)
ALL = {case.name: case for case in cases()}


@pytest.mark.rare
@pytest.mark.parametrize("name", CHOSEN)
def test_an_enabled_session_gives_what_batch_or_spark_gives(spark: SparkSession, tmp_path: Path, name: str) -> None:
    tj = trijoin_sql.TriJoinSession.create(spark)
    assert verdict(spark, tj, tmp_path, ALL[name], seed=1) is None


@pytest.mark.rare
@pytest.mark.parametrize("kind", ["equal", "band"])
def test_late_rows_are_dropped_only_where_spark_drops_them(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    tj = trijoin_sql.TriJoinSession.create(spark)
    case: Case = ALL[f"nothing / {kind}, later"]
    assert late_verdict(spark, tj, tmp_path, case, seed=1) is None


def test_the_corpus_is_as_large_as_it_says() -> None:
    assert len(ALL) >= 150
    assert len({case.sql for case in ALL.values()}) > 100
