"""A restart in a session with another setting: the rows of Spark batch, or the setting is named before it runs."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from .differential import Tables
from .test_layouts import RS, feed, go_on, in_batch
from .test_layouts import tables as tables  # a fixture

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
#: Before and after the restart.
SETTINGS = {
    ZONE: ("UTC", "Asia/Kolkata"),  # half an hour more than some hours
    "spark.sql.legacy.timeParserPolicy": ("CORRECTED", "LEGACY"),
    ANSI: ("true", "false"),
    "spark.sql.shuffle.partitions": ("2", "3"),
    "spark.sql.adaptive.enabled": ("true", "false"),
    "spark.sql.codegen.wholeStage": ("true", "false"),
    "spark.sql.caseSensitive": ("false", "true"),
    "spark.sql.legacy.sizeOfNull": ("true", "false"),
    "spark.sql.parser.escapedStringLiterals": ("false", "true"),
    "spark.sql.datetime.java8API.enabled": ("false", "true"),
    "spark.sql.execution.arrow.maxRecordsPerBatch": ("10000", "7"),
}
#: With the settings that may be named.
CONDITIONS = {
    "ABS(r.x - s.x) <= 2": (),
    "CAST(r.x AS STRING) <= CAST(s.x AS STRING)": (),
    "MINUTE(r.ts) <= MINUTE(s.ts)": (ZONE,),
    "date_format(r.ts, 'mm') <= date_format(s.ts, 'mm')": (ZONE, "spark.sql.legacy.timeParserPolicy"),
    "concat('\\\\', r.x) <= concat('\\\\', s.x)": ("spark.sql.parser.escapedStringLiterals",),
}
DRAWN = int(os.environ.get("TRIJOIN_SETTINGS_DRAWN", "2"))


def drawn(seed: int) -> tuple[str, str]:
    random = Random(seed)
    return random.choice([*SETTINGS]), random.choice([*CONDITIONS])


@pytest.mark.parametrize(
    ("key", "condition"),
    [(ZONE, "MINUTE(r.ts) <= MINUTE(s.ts)"), (ZONE, "ABS(r.x - s.x) <= 2"), *map(drawn, range(DRAWN))],
)
def test_another_setting_is_named_or_changes_nothing(
    spark: SparkSession, tables: Tables, tmp_path: Path, key: str, condition: str
) -> None:
    sql = f"SELECT r.id, s.id AS other FROM r JOIN s ON {RS} AND {condition}"
    before, checkpoint = str(spark.conf.get(key)), tmp_path / "checkpoint"
    old, new = SETTINGS[key]
    try:
        spark.conf.set(key, old)
        feed(tables, Random(1), range(1))
        found = go_on(tables, sql, checkpoint)
        feed(tables, Random(2), range(1, 2))
        spark.conf.set(key, new)
        # Without ANSI a difference may overflow, so that `RS` is no band.
        if key in (ANSI, *CONDITIONS[condition]):
            with pytest.raises(StreamingQueryException) as caught:
                go_on(tables, sql, checkpoint)
            assert f"setting {key} was" in str(caught.value)
            assert "TRIJOIN_CHECKPOINT_MISMATCH" in str(caught.value)
        else:
            assert found + go_on(tables, sql, checkpoint) == in_batch(tables, sql)
    finally:
        spark.conf.set(key, before)
