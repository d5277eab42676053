"""Rates of streams: what is declared chooses, what was read advises, neither turns a job's restart into a refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from rich.console import Console

import trijoin_sql
from trijoin_sql import InvalidSettingError
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import prepare
from trijoin_sql.jobs.run import run_queries
from trijoin_sql.running.stopping import StopRequest

from .differential import Tables, bag, run_stream
from .test_layouts import RS, ST, feed, in_batch, kept, tables

__all__ = ["tables"]

CHAIN = f"SELECT r.id, s.id AS other, t.id AS third FROM r JOIN s ON {RS} JOIN t ON {ST}"
#: As a checkpoint has it that is from before cost chose.
HINTED = CHAIN.replace("SELECT", "SELECT /*+ SCHEME('semi_symmetric') */", 1)
RATES = {f"spark.trijoin.rate.{name}": "5" for name in "rst"}


@pytest.fixture
def declared(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose rates may be declared by the test; none is afterwards."""
    yield spark
    for name in RATES:
        spark.conf.unset(name)


def declare(spark: SparkSession) -> None:
    for name, rate in RATES.items():
        spark.conf.set(name, rate)


def test_a_restart_keeps_its_scheme_whatever_is_declared(
    declared: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    """In Python: the plan is refused with the hint that helps, and `resuming` makes one that goes on."""
    random, checkpoint = Random(1), tmp_path / "checkpoint"
    feed(tables, random, range(1))
    tj = trijoin_sql.TriJoinSession.create(declared)
    tables.use(streaming=True)
    found = run_stream(tj.sql(HINTED), checkpoint)
    assert "semi_symmetric" in json.loads(json.dumps(kept(checkpoint)))["fingerprint"]
    feed(tables, random, range(1, 2))
    declare(declared)
    tables.use(streaming=True)
    assert "matrix costs" in str(tj.explain(CHAIN))
    with pytest.raises(StreamingQueryException, match=r"SCHEME\('semi_symmetric'\) keeps what it has"):
        run_stream(tj.sql(CHAIN), checkpoint)
    with tj.resuming(str(checkpoint)):
        frame = tj.sql(CHAIN)
        assert "the checkpoint stores rows for semi_symmetric" in str(tj.explain(CHAIN)).replace("\n", " ")
    found += run_stream(frame, checkpoint)
    assert found == in_batch(tables, CHAIN)


def test_units_that_cost_chose_follow_the_checkpoint(declared: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """Two units without rates; one would do by the rates, but rows that are kept for ever would be left behind."""
    sql, checkpoint = "SELECT r.id, s.id FROM r JOIN s ON r.x < s.x", tmp_path / "checkpoint"
    feed(tables, Random(2), range(1))
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(declared)
    found = run_stream(tj.sql("SELECT /*+ UNITS(2) */" + sql.removeprefix("SELECT")), checkpoint)
    feed(tables, Random(3), range(1, 2))
    declare(declared)
    tables.use(streaming=True)
    assert tj.explain(sql).to_dict()["groups"][0]["decision"]["units"] == 1  # type: ignore[index,call-overload]
    found += run_stream(tj.sql(sql), checkpoint)
    assert kept(checkpoint)["layouts"] == [[0, 2]]
    assert found == in_batch(tables, sql)


JOB = """
CREATE STREAM r (id BIGINT, x INT, ts TIMESTAMP) USING parquet OPTIONS (path '{home}/tables/r'{rate})
  WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM s (id BIGINT, x INT, ts TIMESTAMP) USING parquet OPTIONS (path '{home}/tables/s'{rate})
  WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM t (id BIGINT, x INT, ts TIMESTAMP) USING parquet OPTIONS (path '{home}/tables/t'{rate})
  WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE SINK near USING parquet OPTIONS (path '{home}/out{number}', checkpointLocation '{home}/checkpoint{number}');
CREATE TEMPORARY VIEW joined AS {sql};
INSERT INTO near SELECT * FROM joined;
"""


@pytest.mark.rare
def test_a_job_goes_on_when_its_streams_declare_rates(declared: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """The option is ours, not the reader's; the checkpoint keeps its scheme and units, and a new one gets others."""
    session = trijoin_sql.TriJoinSession.create(declared)
    random, said, schemes = Random(4), [], []
    for number, rate in enumerate(("", ", trijoin.rowsPerSecond 5", ", trijoin.rowsPerSecond 5")):
        feed(tables, random, range(number, number + 1), count=12)
        place = number // 2
        job = parse_job(
            Script("job.sql", JOB.format(home=tmp_path, rate=rate, number=place, sql=CHAIN if rate else HINTED))
        )
        check_job(job)
        declared.catalog.dropTempView("joined")
        prepared = prepare(job, session)
        said.append(prepared[0].kept)
        run_queries(job, prepared, Console(quiet=True), StopRequest(), once=True)
        schemes.append(kept(tmp_path / f"checkpoint{place}"))
    assert [one["fingerprint"].splitlines()[0] for one in schemes] == ["scheme: semi_symmetric"] * 2 + [
        "scheme: matrix"
    ]
    assert schemes[-1]["layouts"] == [[0, 1]]
    assert [len(sentences) for sentences in said] == [0, 1, 0]
    assert "on a new one matrix would run" in said[1][0]
    assert bag(declared.read.parquet(str(tmp_path / "out1")).collect()) == in_batch(tables, CHAIN)


def test_rates_come_from_settings_and_through_views(declared: SparkSession, tables: Tables) -> None:
    declare(declared)
    tables.use(streaming=True)
    declared.sql("CREATE OR REPLACE TEMPORARY VIEW v AS SELECT id + 1 AS id, x, ts FROM r WHERE x > 0")
    declared.sql("CREATE OR REPLACE TEMPORARY VIEW w AS SELECT x, count(*) AS id FROM s GROUP BY x")
    tj = trijoin_sql.TriJoinSession.create(declared)
    explained = str(tj.explain("SELECT v.id FROM v JOIN t ON v.x < t.x JOIN w ON t.x < w.x"))
    assert "declared: v 5/s, t 5/s; assumed: w 1,000/s" in explained
    declared.conf.set("spark.trijoin.rate.r", "many")
    with pytest.raises(InvalidSettingError, match=r"spark\.trijoin\.rate\.r"):
        tj.explain("SELECT v.id FROM v JOIN t ON v.x < t.x")


def test_explain_knows_what_queries_of_the_session_read(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """It says that it was observed, and with it what to declare; the query is planned as before."""
    feed(tables, Random(5), range(2), count=30)
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    run_stream(tj.sql("SELECT r.id, s.id FROM r JOIN s ON r.x = s.x"), tmp_path / "checkpoint")
    for _ in range(100):
        if "observed: r" in str(tj.explain("SELECT r.id FROM r JOIN t ON r.x = t.x")):
            break
        spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty()
    decision = tj.explain("SELECT r.id FROM r JOIN s ON r.x = s.x").to_dict()["groups"][0]["decision"]  # type: ignore[index,call-overload]
    assert [rate["rows_from"] for rate in decision["rates"]] == ["observed", "observed"]
    assert decision["scheme"] == "biclique"
    matched = sum(in_batch(tables, "SELECT r.id, s.id FROM r JOIN s ON r.x = s.x").values())
    (pair,) = decision["selectivities"]
    assert (pair["share_from"], pair["share"]) == ("observed", pytest.approx(matched / 3600, rel=0.1))


@pytest.mark.rare
def test_a_tree_is_told_apart_from_a_name_with_an_underscore(
    spark: SparkSession, tables: Tables, tmp_path: Path
) -> None:
    """A node of a tree reads the stored result of r and s as r_s, and so is a common table expression named here."""
    random, checkpoint = Random(6), tmp_path / "checkpoint"
    sql = (
        "WITH r_s AS (SELECT id, x, ts FROM r) "
        "SELECT {first} r_s.id AS one, t.id AS other, 0 AS third FROM r_s JOIN t ON ABS(r_s.x - t.x) <= 1 UNION ALL "
        f"SELECT {{second}} r.id, s.id, t.id FROM r JOIN s ON {RS} JOIN t ON {ST}"
    )
    hinted = sql.format(first="/*+ UNITS(3) */", second="/*+ SCHEME('operator_tree((r, s), t)'), UNITS(2) */")
    feed(tables, random, range(2))
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    found = run_stream(tj.sql(hinted), checkpoint)
    feed(tables, random, range(2, 3))
    tables.use(streaming=True)
    with tj.resuming(str(checkpoint)):
        decisions = [group["decision"] for group in tj.explain(sql.format(first="", second="")).to_dict()["groups"]]  # type: ignore[attr-defined,index]
        frame = tj.sql(sql.format(first="", second=""))
    assert [(one["scheme"], one["units"]) for one in decisions] == [("biclique", 3), ("operator_tree", 2)]
    found += run_stream(frame, checkpoint)
    assert found == in_batch(tables, hinted)
    (file,) = (checkpoint / "trijoin").glob("joins-*.json")
    joins = json.loads(file.read_text())["joins"]
    assert sorted(layout for join in joins for _, layout in join["layouts"]) == [2, 2, 3]


def test_a_selectivity_comes_and_goes_at_restarts(spark: SparkSession, tables: Tables, tmp_path: Path) -> None:
    """Rows then probe in another order, by other relations: the checkpoint is the same, and so are the results."""
    random, checkpoint = Random(8), tmp_path / "checkpoint"
    tj, found = trijoin_sql.TriJoinSession.create(spark), bag([])
    cycle = f"{CHAIN} AND ABS(r.x - t.x) < 100".replace("SELECT", "SELECT /*+ SCHEME('matrix') */", 1)
    said = "SCHEME('matrix'), SELECTIVITY(r, s, 0.001), SELECTIVITY(t, r, 0.01), SELECTIVITY(s, t, 0.9)"
    plans = []
    for number, sql in enumerate((cycle, cycle.replace("SCHEME('matrix')", said), cycle)):
        feed(tables, random, range(number, number + 1))
        tables.use(streaming=True)
        decision = tj.explain(sql).to_dict()["groups"][0]["decision"]  # type: ignore[index,call-overload]
        plans.append((decision["probes"], decision["selectivities"][0]["share_from"]))
        found += run_stream(tj.sql(sql), checkpoint)
    assert [who for _, who in plans] == ["assumed", "declared", "assumed"]
    assert (plans[0][0]["t"], plans[1][0]["t"]) == (["s", "r"], ["r", "s"])
    assert found == in_batch(tables, cycle)


def test_dataframes_declare_selectivities(spark: SparkSession, tables: Tables) -> None:
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(spark)
    frames = {"r": spark.table("r"), "other": spark.table("s")}
    told = {("other", "r"): 0.015}
    frame = tj.join(frames, "r.x < other.x", select=["r.id"], within="1 minute", selectivity=told)
    assert "declared: r and other 0.015" in str(tj.explain(frame))
    with pytest.raises(trijoin_sql.InvalidHintError, match="above 0 and up to 1"):
        tj.join(frames, "r.x < other.x", select=["r.id"], within="1 minute", selectivity={("r", "other"): 1.5})
