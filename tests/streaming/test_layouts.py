"""Another number of units at a restart: old rows stay, new rows go to the new units, nothing is lost or comes twice."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from trijoin_sql.operators.state.layout import History

import trijoin_sql
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job
from trijoin_sql.jobs.prepare import prepare
from trijoin_sql.jobs.run import run_queries
from trijoin_sql.running.state_report import read_state
from trijoin_sql.running.stopping import StopRequest

from .differential import Bag, Tables, bag, run_stream

SCHEMA = "id bigint, x int, ts timestamp"
ARROW = pa.schema([("id", pa.int64()), ("x", pa.int32()), ("ts", pa.timestamp("us", "UTC"))])
STEP = 20
START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)

NEAR = "{0}.ts BETWEEN {1}.ts - INTERVAL 20 SECONDS AND {1}.ts + INTERVAL 20 SECONDS AND ABS({0}.x - {1}.x) <= 1"
RS, ST, RT = NEAR.format("r", "s"), NEAR.format("s", "t"), NEAR.format("r", "t")
QUERIES = {
    "symmetric": f"SELECT /*+ SCHEME('symmetric'), UNITS(N) */ r.id, s.id, t.id FROM r JOIN s ON {RS} "
    f"JOIN t ON {ST} AND {RT}",
    "semi_symmetric": f"SELECT /*+ SCHEME('semi_symmetric'), UNITS(N) */ r.id, s.id, t.id FROM r JOIN s ON {RS} "
    f"JOIN t ON {ST}",
    "non_materializing": f"SELECT /*+ SCHEME('non_materializing'), UNITS(N) */ r.id, s.id, t.id FROM r JOIN s ON {RS} "
    f"JOIN t ON {ST} AND {RT}",
    "biclique": f"SELECT /*+ SCHEME('biclique'), UNITS(N) */ r.id, s.id FROM r JOIN s ON {RS}",
    "key": f"SELECT /*+ SCHEME('semi_symmetric'), UNITS(N) */ r.id, s.id, t.id FROM r JOIN s ON r.x = s.x AND {RS} "
    f"JOIN t ON s.x = t.x AND {ST}",
    "range": f"SELECT /*+ SCHEME('biclique'), ROUTING('range'), UNITS(N) */ r.id, s.id FROM r JOIN s ON {RS}",
}


def rows(random: Random, batch: int, count: int = 8) -> list[dict[str, Any]]:
    """Rows of a micro-batch: its event times lie in `STEP` seconds of their own, next to those of its neighbours."""
    return [
        {
            "id": 100 * batch + at,
            "x": random.randrange(5),
            "ts": START + datetime.timedelta(seconds=STEP * batch, milliseconds=random.randrange(1000 * STEP)),
        }
        for at in range(count)
    ]


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    """Three streams with watermarks; without rows."""
    made = Tables(spark, tmp_path / "tables")
    for name in "rst":
        made.create(name, [], SCHEMA, ARROW, lambda frame: frame.withWatermark("ts", "10 seconds"))
    return made


def feed(tables: Tables, random: Random, batches: Iterable[int], count: int = 8) -> None:
    for batch in batches:
        for name in "rst":
            tables.add(name, rows(random, batch, count), ARROW)


def go_on(tables: Tables, sql: str, checkpoint: Path) -> Bag:
    """Run what is there with a session and a plan of its own, as a new driver would."""
    tables.use(streaming=True)
    return run_stream(trijoin_sql.TriJoinSession.create(tables.spark).sql(sql), checkpoint)


def in_batch(tables: Tables, sql: str) -> Bag:
    tables.use(streaming=False)
    return bag(tables.spark.sql(sql).collect())


def kept(checkpoint: Path) -> dict[str, Any]:
    (file,) = (checkpoint / "trijoin").glob("joins-*.json")
    (join,) = json.loads(file.read_text())["joins"]
    return dict(join)


@pytest.mark.matrix
@pytest.mark.rare
@pytest.mark.parametrize(
    ("scheme", "units", "last"),
    [
        ("symmetric", (2, 5, 1), 5),
        ("semi_symmetric", (3, 1, 4), 1),
        ("biclique", (1, 3), 1),
        ("non_materializing", (3, 1), 5),
        ("key", (3, 2), 5),
        ("range", (3, 2), 5),
    ],
)
def test_trap_20_units_up_and_down(
    tables: Tables, tmp_path: Path, scheme: str, units: tuple[int, ...], last: int
) -> None:
    """Three layouts with rows expiring on the way; a last run that gives up units is long enough for them to empty.

    Hubs are the longest there: rows become hubs as long as the stored row that they match is kept, and are kept then.
    """
    random, sql, checkpoint = Random(len(scheme)), QUERIES[scheme], tmp_path / "checkpoint"
    found, batch = bag([]), 0
    for number, count in enumerate(units):
        more = last if number == len(units) - 1 else 1
        feed(tables, random, range(batch, batch + more))
        batch += more
        part = go_on(tables, sql.replace("UNITS(N)", f"UNITS({count})"), checkpoint)
        assert part
        found += part
    assert found == in_batch(tables, sql)
    assert [entry[1] for entry in kept(checkpoint)["layouts"]] == list(units)
    state = read_state(tables.spark, checkpoint)
    holding = {store.slot for store in state.stores if store.rows}
    (now, *_) = History.from_dict(kept(checkpoint)).at(batch + 100)
    assert holding == set(now.slots), "rows are where they were stored, until they expire"
    assert (now.base > 0) == (scheme in ("key", "range"))
    if units[-1] < max(units):
        assert kept(checkpoint)["since"][1] == kept(checkpoint)["layouts"][-1][0], "empty layouts are left out"


#: Joins that run in cells: each has one row in a result by which layouts part results.
CELLS = {
    "chain": f"SELECT /*+ SCHEME('matrix'), UNITS(N) */ r.id, s.id, t.id FROM r JOIN s ON {RS} JOIN t ON {ST}",
    "range": f"SELECT /*+ SCHEME('matrix'), ROUTING('range'), UNITS(N) */ r.id, s.id, t.id FROM r JOIN s ON {RS} "
    f"JOIN t ON {ST}",
    "left": f"SELECT /*+ UNITS(N) */ r.id, s.id AS other FROM r LEFT JOIN s ON {RS}",
    "right": f"SELECT /*+ UNITS(N) */ r.id AS other, s.id FROM r RIGHT JOIN s ON {RS} AND r.ts <= s.ts",
    "anti": f"SELECT /*+ UNITS(N) */ r.id FROM r LEFT ANTI JOIN s ON {RS} AND r.x = s.x AND r.ts <= s.ts",
    "tree": f"SELECT /*+ UNITS(N) */ r.id, s.id AS other, t.id AS third FROM r JOIN s ON {RS} LEFT JOIN t ON {ST}",
    "settled": f"SELECT /*+ UNITS(N) */ r.id, s.id AS other FROM r LEFT JOIN s ON {RS} AND r.x * s.x < 6",
    "operator_tree": "SELECT /*+ SCHEME('operator_tree((r, s), (t, u))'), UNITS(N) */ r.id, s.id, t.id, u.id FROM r "
    f"JOIN s ON {RS} JOIN t ON {ST} JOIN r AS u ON {NEAR.format('t', 'u')}",
}


def apart(rows: Bag, last: int) -> tuple[Bag, Bag]:
    """Return results whose preserved row came before some batch, and the others."""
    early = {row: count for row, count in rows.items() if max(map(int, re.findall(r"\d+", row))) < 100 * last}
    return bag([]) + Counter(early), rows - Counter(early)


@pytest.mark.matrix
@pytest.mark.rare
@pytest.mark.parametrize("name", CELLS)
def test_cells_up_and_down(tables: Tables, tmp_path: Path, name: str) -> None:
    """More cells, fewer, and more again before the first ones are empty; then long enough for all but the last."""
    random, sql, checkpoint = Random(name), CELLS[name], tmp_path / "checkpoint"
    found, batch, units = bag([]), 0, (2, 6, 1, 4)
    for number, count in enumerate(units):
        more = 14 if number == len(units) - 1 else 2
        feed(tables, random, range(batch, batch + more), count=5)
        batch += more
        found += go_on(tables, sql.replace("UNITS(N)", f"UNITS({count})"), checkpoint)
    feed(tables, random, (90,), count=1)  # the end of what waits
    found += go_on(tables, sql.replace("UNITS(N)", "UNITS(4)"), checkpoint)
    (early, _), (wanted, _) = (apart(some, 90) for some in (found, in_batch(tables, sql)))
    assert wanted
    assert early == wanted
    (file,) = (checkpoint / "trijoin").glob("joins-*.json")
    for join in json.loads(file.read_text())["joins"]:
        assert [entry[1] for entry in join["layouts"]] == list(units), join
        assert join["since"][1] == join["layouts"][-1][0], "earlier layouts are left out"
    state = read_state(tables.spark, checkpoint)
    for operator in {store.operator for store in state.stores}:
        holding = {store.slot for store in state.stores if store.rows and store.operator == operator}
        assert len(holding) <= 4


@pytest.mark.rare
def test_a_replayed_batch_keeps_its_layout(tables: Tables, tmp_path: Path) -> None:
    """Its sink failed, the state was saved; it comes again with the units that it was planned with, then others do."""
    random, sql, checkpoint = Random(3), QUERIES["symmetric"], tmp_path / "checkpoint"
    feed(tables, random, range(3))
    seen: dict[int, list[Bag]] = {}

    def keep(frame: DataFrame, batch: int) -> None:
        seen.setdefault(batch, []).append(bag(frame.collect()))
        if batch == 1 and len(seen[batch]) == 1:
            raise RuntimeError("the disk is full")

    for attempt, count in enumerate((2, 4)):
        tables.use(streaming=True)
        frame = trijoin_sql.TriJoinSession.create(tables.spark).sql(sql.replace("UNITS(N)", f"UNITS({count})"))
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        if attempt == 0:
            with pytest.raises(StreamingQueryException, match="disk is full"):
                query.awaitTermination()
        else:
            query.awaitTermination()
    assert seen[1][0] == seen[1][1]
    assert kept(checkpoint)["layouts"] == [[0, 2], [2, 4]]
    assert sum((attempts[-1] for attempts in seen.values()), bag([])) == in_batch(tables, sql)


@pytest.mark.rare
def test_cells_are_those_of_the_checkpoint_however_many_tasks_run(tables: Tables, tmp_path: Path) -> None:
    """Spark's own joins keep the partitions of the first run, too. One cell and many: rows find the old ones."""
    sql = (
        f"SELECT r.id, s.id AS other, 0 AS third FROM r LEFT JOIN s ON {RS} "
        f"UNION ALL SELECT /*+ SCHEME('matrix') */ r.id, s.id, t.id FROM r JOIN s ON {RS} JOIN t ON {ST} "
        f"UNION ALL SELECT /*+ SCHEME('semi_symmetric'), ROUTING('range') */ r.id, s.id, t.id FROM r JOIN s ON {RS} "
        f"JOIN t ON {ST}"
    )
    # Distances and not partners, for several may be as near.
    near, last = "ABS(unix_micros(r.ts) - unix_micros(s.ts))", "unix_micros(s.ts)"
    closest = (
        f" UNION ALL SELECT r.id, -1, {last} FROM r LEFT ASOF JOIN s MATCH_CONDITION (r.ts >= s.ts) ON r.x = s.x "
        f"WITHIN 20 SECONDS UNION ALL SELECT r.id, -2, {near} FROM r JOIN s APPROX NEAREST BY DISTANCE {near} "
        "WITHIN 20 SECONDS"
    )
    in_pairs = (
        f" UNION ALL SELECT r.id, -1, MAX({last}) FROM r LEFT JOIN s ON r.ts >= s.ts AND {near} <= 20000000 "
        f"AND r.x = s.x GROUP BY r.id UNION ALL SELECT r.id, -2, MIN({near}) FROM r JOIN s ON {near} <= 20000000 "
        "GROUP BY r.id"
    )
    random, checkpoint, key = Random(5), tmp_path / "checkpoint", "spark.sql.shuffle.partitions"
    found, before, stored = bag([]), str(tables.spark.conf.get(key)), []
    try:
        for number, partitions in enumerate(("4", "1")):
            tables.spark.conf.set(key, partitions)
            feed(tables, random, (0, 1) if number == 0 else (2, 60))  # the last closes all before it
            found += go_on(tables, sql + closest, checkpoint)
            (file,) = (checkpoint / "trijoin").glob("joins-*.json")
            stored.append(json.loads(file.read_text())["joins"])
    finally:
        tables.spark.conf.set(key, before)
    assert stored == [stored[0]] * 2
    assert [one.get("grid") for one in stored[0]] == [[4, 1], [1, 2, 2], None, [4], [4, 1]]
    early, wanted = (
        {row: count for row, count in rows.items() if int(row[1:].split(",")[0]) < 6000}
        for rows in (found, in_batch(tables, sql + in_pairs))
    )
    assert early == wanted


@pytest.mark.rare
def test_what_cannot_change_is_refused(tables: Tables, tmp_path: Path) -> None:
    """Cells of rows that never leave them, and ranges by which stages send on.

    Other reasons: ``operators/test_layout.py``.
    """
    feed(tables, Random(1), range(1))
    for number, (sql, count, words) in enumerate(
        (
            ("SELECT /*+ SCHEME('matrix'), UNITS(N) */ r.id, s.id FROM r JOIN s ON r.x < s.x", 4, "kept for ever"),
            (QUERIES["semi_symmetric"].replace("UNITS(N)", "ROUTING('range'), UNITS(N)"), 4, "ranges"),
        )
    ):
        checkpoint = tmp_path / f"checkpoint-{number}"
        go_on(tables, sql.replace("UNITS(N)", "UNITS(2)"), checkpoint)
        feed(tables, Random(number), range(number + 1, number + 2))
        with pytest.raises(StreamingQueryException) as caught:
            go_on(tables, sql.replace("UNITS(N)", f"UNITS({count})"), checkpoint)
        assert "TRIJOIN_CHECKPOINT_MISMATCH" in str(caught.value), str(caught.value)[:2000]
        assert f"units was 2 and is now {count}" in str(caught.value)
        assert words in str(caught.value)


@pytest.fixture
def scaling(spark: SparkSession) -> Iterator[None]:
    """Scaling by load with a capacity of a few rows."""
    settings = {"enabled": "true", "unitBytes": "6k", "decisions": "2", "maxUnits": "4"}
    for name, text in settings.items():
        spark.conf.set(f"spark.trijoin.scaling.{name}", text)
    yield
    for name in settings:
        spark.conf.unset(f"spark.trijoin.scaling.{name}")


@pytest.mark.rare
@pytest.mark.usefixtures("scaling")
@pytest.mark.parametrize("written", [QUERIES["biclique"], CELLS["chain"]], ids=["units", "cells"])
def test_units_follow_the_load(tables: Tables, tmp_path: Path, written: str) -> None:
    """A stream that grows, and keeps running: more units without a hand, the same results as in batch."""
    random, sql, checkpoint = Random(9), written.replace("UNITS(N)", "UNITS(1)"), tmp_path / "checkpoint"
    feed(tables, random, range(5), count=90)
    found: dict[int, Bag] = {}
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(tables.spark)
    writer = tj.sql(sql).writeStream.foreachBatch(lambda frame, batch: found.update({batch: bag(frame.collect())}))
    query = tj.start(writer.trigger(processingTime="0 seconds"), str(checkpoint))
    restarts, steps = 0, itertools.count(5)
    live = None
    try:
        for _ in range(800):
            if query.awaitTermination(0.3) or live:
                break
            if query.restarts > restarts:  # a run that finds no rows left never reports
                restarts = query.restarts
                feed(tables, random, [next(steps)], count=90)
            elif restarts and "addBatch" in getattr(query.query.lastProgress, "durationMs", ()):
                with contextlib.suppress(trijoin_sql.UnavailableError):  # it may have started anew just now
                    live = tj.explain(query)
        ((name, said),) = query.decisions.items()
    finally:
        query.stop()
    rest = writer.trigger(availableNow=True).start()  # what the end interrupted, and what is left
    rest.awaitTermination()
    assert query.restarts >= 1
    confirmed = next(decision for decision in said if decision.confirmed)
    assert (confirmed.units, confirmed.streak) == (1, 2)
    assert confirmed.wanted >= 2
    layouts = kept(checkpoint)["layouts"]
    assert layouts[0] == [0, 1]
    assert layouts[1][1] == confirmed.wanted
    assert "new rows are stored in" in str(live)
    assert "of the units' capacity is used" in str(live), name
    assert sum(found.values(), bag([])) == in_batch(tables, sql)


@pytest.mark.rare
@pytest.mark.usefixtures("scaling")
def test_each_subgroup_follows_its_own_load(tables: Tables, tmp_path: Path) -> None:
    """003 section 5: the subgroup of a heavy key gets units, the other one keeps its one; the same results as in batch.

    After that a query has what the checkpoint has, unless a hand asks for others.
    """
    random, checkpoint = Random(3), tmp_path / "checkpoint"
    sql = f"SELECT /*+ ROUTING('contrand', 2), UNITS(2) */ r.id, s.id FROM r JOIN s ON r.x = s.x AND {RS}"

    def more(batch: int, count: int = 120) -> None:
        for name in "rs":
            some = rows(random, batch, count)
            heavy = [row | {"x": 3} if random.random() < 0.9 else row for row in some]
            tables.add(name, heavy, ARROW)

    for batch in range(5):
        more(batch)
    found: dict[int, Bag] = {}
    tables.use(streaming=True)
    tj = trijoin_sql.TriJoinSession.create(tables.spark)
    writer = tj.sql(sql).writeStream.foreachBatch(lambda frame, batch: found.update({batch: bag(frame.collect())}))
    query = tj.start(writer.trigger(processingTime="0 seconds"), str(checkpoint))
    try:
        for _ in range(400):
            if query.awaitTermination(0.3) or query.restarts:
                break
    finally:
        query.stop()
    assert query.restarts >= 1
    ((_, said),) = query.decisions.items()
    confirmed = {one.subgroup: one.wanted for one in said if one.confirmed}
    (heavy,) = confirmed
    first, second = kept(checkpoint)["layouts"][:2]
    assert first == [0, 2]
    assert second[1] == second[3 + heavy] + 1, "the other subgroup keeps its unit"
    assert second[3 + heavy] == confirmed[heavy] > 1
    tables.spark.conf.set("spark.trijoin.scaling.enabled", "false")
    for number, units in enumerate((None, 6, None), start=5):
        more(number, 8)
        tables.use(streaming=True)
        tj = trijoin_sql.TriJoinSession.create(tables.spark)
        before = kept(checkpoint)["layouts"]
        with tj.resuming(str(checkpoint)):
            frame = tj.sql(sql.replace(", UNITS(2)", "" if units is None else f", UNITS({units})"))
        writer = frame.writeStream.foreachBatch(lambda frame, batch: found.update({batch: bag(frame.collect())}))
        writer.trigger(availableNow=True).option("checkpointLocation", str(checkpoint)).start().awaitTermination()
        layouts = kept(checkpoint)["layouts"]
        assert layouts == before if units is None else layouts[-1][1] == units
    assert sum(found.values(), bag([])) == in_batch(tables, sql)


JOB = """
SET spark.trijoin.scaling.unitBytes = 12k;
CREATE STREAM r (id BIGINT, x INT, ts TIMESTAMP) USING parquet OPTIONS (path '{home}/tables/r', maxFilesPerTrigger '1')
  WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM s (id BIGINT, x INT, ts TIMESTAMP) USING parquet OPTIONS (path '{home}/tables/s', maxFilesPerTrigger '1')
  WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE SINK near USING parquet OPTIONS (path '{home}/out', checkpointLocation '{home}/checkpoint');
INSERT INTO near {sql};
"""


@pytest.mark.rare
@pytest.mark.usefixtures("scaling")
def test_a_job_follows_its_load_up_and_down(tables: Tables, tmp_path: Path) -> None:
    """``trijoin-sql run``: a burst, then hardly a row; units come, and go once the burst has expired."""
    random, sql = Random(5), QUERIES["biclique"].replace("UNITS(N)", "UNITS(1)").replace("s.id", "s.id AS other")
    feed(tables, random, range(4), count=250)
    feed(tables, random, range(4, 12), count=1)
    text = JOB.format(home=tmp_path, sql=sql)
    job = parse_job(Script(str(tmp_path / "job.sql"), text))
    check_job(job)
    request, done = StopRequest(), threading.Event()

    def watch() -> None:
        while not done.wait(0.2):
            with contextlib.suppress(ValueError, OSError):  # no file yet, or a newer one has come in its place
                units = [entry[1] for entry in kept(tmp_path / "checkpoint")["layouts"]]
                if max(units) > units[-1]:
                    request.ask("fewer units")
                    return
        request.ask("nothing more to come")

    session = trijoin_sql.TriJoinSession.create(tables.spark)
    end = threading.Timer(240, done.set)
    watcher = threading.Thread(target=watch)
    end.start()
    watcher.start()
    try:
        ended = run_queries(job, prepare(job, session), Console(quiet=True), request).ended
    finally:
        done.set()
        end.cancel()
        watcher.join()
    units = [entry[1] for entry in kept(tmp_path / "checkpoint")["layouts"]]
    assert ended == "fewer units", units
    assert units[0] == 1
    assert units[1] > units[0]
    assert units[-1] < max(units)
    tables.spark.conf.unset("spark.trijoin.scaling.enabled")
    run_queries(job, prepare(job, session), Console(quiet=True), StopRequest(), once=True)  # what the end left
    assert bag(tables.spark.read.parquet(str(tmp_path / "out")).collect()) == in_batch(tables, sql)
