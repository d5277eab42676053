"""Which settings of a session decide what Spark computes of a row: those, and no others."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from trijoin_sql.operators.compile.session_settings import PARSER, ZONE, settings_in
from trijoin_sql.operators.state.changed_query import difference, is_same

DEPEND = """ts - INTERVAL 1 DAY
ts + x * INTERVAL 1 SECOND
ts + INTERVAL 1 MONTH
HOUR(ts)
date_trunc('HOUR', ts)
date_trunc(txt, ts)
DATE(ts)
CAST(d AS TIMESTAMP)
n < ts
CAST(txt AS TIMESTAMP)
CAST(ts AS STRING)
CAST(array(ts) AS ARRAY<STRING>)
weekday(ts)
datediff(ts, d)
ts - timestamp'2020-01-01'
to_json(named_struct('a', ts))
from_json(txt, 'a TIMESTAMP').a
unix_timestamp(txt)
h""".splitlines()
ALIKE = """x
ts - INTERVAL 10 SECONDS
ts BETWEEN ts - INTERVAL 2 HOURS AND ts + INTERVAL '1' SECOND
HOUR(n)
n + INTERVAL 1 DAY
SECOND(ts)
date_trunc('MINUTE', ts)
CAST(x AS STRING)
CAST(d AS STRING)
CAST(ts AS BIGINT)
CAST(CAST(x AS INT) AS TIMESTAMP)
unix_micros(ts)
unix_timestamp(ts)
weekday(d)
to_json(named_struct('a', x))
window(ts, '5 seconds').start
make_date(2020, 1, 1) < d""".splitlines()


def test_the_zone_counts_where_spark_computes_by_it(spark: SparkSession) -> None:
    stream = spark.readStream.format("rate").load().selectExpr("value AS x", "timestamp AS ts")
    stream = stream.selectExpr(
        "*", "CAST(x AS STRING) AS txt", "timestamp_ntz'2020-01-01' AS n", "date'2020-01-01' AS d", "HOUR(ts) AS h"
    )
    stream.withWatermark("ts", "1 second").createOrReplaceTempView("zoned")
    theirs = spark.newSession()
    theirs.conf.set(ZONE, "Asia/Kolkata")
    zones = {}
    for text in DEPEND + ALIKE:
        found = settings_in(spark, spark.sql(f"SELECT {text} AS v FROM zoned WHERE x > 1"))
        zones[text] = found.get(ZONE)
    assert zones == dict.fromkeys(DEPEND, "Z") | dict.fromkeys(ALIKE)
    parsed = settings_in(spark, spark.sql("SELECT to_timestamp(txt, 'yyyy') AS v, size(array(x)) AS n FROM zoned"))
    assert parsed == {ZONE: "Z", PARSER: "CORRECTED"}
    views = theirs.readStream.format("rate").load().selectExpr("HOUR(timestamp) AS h", "value AS x")
    assert settings_in(theirs, views) == {ZONE: "Asia/Kolkata"}
    assert settings_in(theirs, views.select("x")) == {}
    assert settings_in(spark, spark.range(3).selectExpr("HOUR(timestamp_seconds(id)) AS v")) == {}


def test_what_an_older_version_did_not_record_is_no_difference() -> None:
    old, new = "scheme: x", f"scheme: x\nsetting {ZONE}: Z"
    assert is_same(old, new)
    assert is_same(new, old)
    assert not is_same(new, new.replace(": Z", ": Asia/Kolkata"))
    words = f"setting {ZONE} was Z and is now Asia/Kolkata; what is stored was computed by it"
    assert words in difference(new, new.replace(": Z", ": Asia/Kolkata"))


@pytest.mark.parametrize("text", ["", "scheme: y"])
def test_other_lines_count_all_the_same(text: str) -> None:
    assert not is_same("scheme: x", f"{text}\nsetting {ZONE}: Z")
