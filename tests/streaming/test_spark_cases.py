"""What Spark's own tests of outer and semi joins of streams check, step by step, on joins that are ours.

The scenarios follow ``StreamingOuterJoinSuite``, ``StreamingFullOuterJoinSuite`` and ``StreamingLeftSemiJoinSuite`` of
Apache Spark (Apache License 2.0), and the faults that were mended there: their inputs, watermarks and outputs. Anti
joins, which Spark does not run on streams, are held to the same. WITHIN, or a band instead of an equality, makes the
join ours. In each step the rows of both sides come in one micro-batch; micro-batches without data belong to the step.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import trijoin_sql
from trijoin_sql.running.state_report import read_state

from .differential import UTC, Tables

pytestmark = pytest.mark.slow

START = datetime.datetime(2024, 1, 1, tzinfo=UTC)
SCHEMA = "side string, k int, second int, ts timestamp"
ARROW = pa.schema([("side", pa.string()), ("k", pa.int32()), ("second", pa.int32()), ("ts", pa.timestamp("us", "UTC"))])

#: The key and the second of a row; those of both sides of a result, None for a side that is padded.
Row = tuple[int | None, int | None]
Pair = tuple[Row | None, Row | None]
ONE_SIDED = ("SEMI", "ANTI")


def at(*seconds: int) -> list[Row]:
    """Return rows whose key is their second."""
    return [(second, second) for second in seconds]


def both(*seconds: int) -> list[Pair]:
    """Return results of two rows whose key is their second."""
    return [((second, second), (second, second)) for second in seconds]


def left(*seconds: int) -> list[Pair]:
    """Return rows of the left side without a partner."""
    return [((second, second), None) for second in seconds]


def right(*seconds: int) -> list[Pair]:
    """Return rows of the right side without a partner."""
    return [(None, (second, second)) for second in seconds]


@dataclass(frozen=True)
class Step:
    """Rows that come in one micro-batch, and the results until the query waits for more.

    Parameters
    ----------
    out
        The results: pairs, or rows of a semi or anti join.
    r, s, shared
        Rows of each side, and of both.
    restart
        Whether the query is stopped and started again before.
    """

    out: Sequence[Any]
    r: Sequence[Row] = ()
    s: Sequence[Row] = ()
    shared: Sequence[Row] = ()
    restart: bool = False


@dataclass(frozen=True)
class Join:
    """A join of r and s on equal keys.

    Parameters
    ----------
    kind
        Its kind.
    near
        By how many seconds a row of r may be before, and after, one of s.
    also
        A further condition.
    delays
        The delays of the watermarks of r and s, in seconds.
    equal
        The comparison of the keys.
    even
        Whether s has rows with even keys alone.
    swapped
        Whether s is on the left.
    conf
        Spark's settings.
    """

    kind: str
    near: tuple[int, int] = (4, 4)
    also: str = "true"
    delays: tuple[int, int] = (10, 10)
    equal: str = "r.k = s.k"
    even: bool = False
    swapped: bool = False
    conf: Mapping[str, str] = field(default_factory=dict)

    def sql(self, form: str) -> str:
        """Return the query: with an ``equality`` and WITHIN, with a ``band`` over keys, or with a ``subquery``."""
        before, after = self.near
        times = f"r.ts BETWEEN s.ts - INTERVAL {before} SECONDS AND s.ts + INTERVAL {after} SECONDS"
        also = "" if self.also == "true" else f" AND {self.also}"
        band = f"ABS(r.k - s.k) < 1 AND {times}{also}"
        if self.kind in ONE_SIDED:
            columns = "r.k AS a, r.second AS b"
            if form == "subquery":
                negated = "NOT " if self.kind == "ANTI" else ""
                return f"SELECT {columns} FROM r WHERE {negated}EXISTS (SELECT 1 FROM s WHERE {band})"
            kind = f"LEFT {self.kind}"
        else:
            columns, kind = "r.k AS a, r.second AS b, s.k AS c, s.second AS d", self.kind
        on = f"{self.equal} AND {times}{also} WITHIN {max(self.near)} SECONDS" if form == "equality" else band
        one, other = ("s", "r") if self.swapped else ("r", "s")
        return f"SELECT /*+ UNITS(2) */ {columns} FROM {one} {kind} JOIN {other} ON {on}"


class Run:
    """A query over one source of files, each with the rows of a step."""

    def __init__(self, spark: SparkSession, home: Path, sql: str, join: Join) -> None:
        self.spark, self.home, self.sql = spark, home, sql
        self.tables = Tables(spark, home / "tables")
        self.tables.create("both", [], SCHEMA, ARROW)
        source = spark.readStream.schema(SCHEMA).parquet(str(home / "tables" / "both"))
        for name, delay in zip("rs", join.delays, strict=True):
            mine = source.where(f"side IN ('{name}', 'both')").drop("side")
            if join.even and name == "s":
                mine = mine.where("k % 2 = 0")
            mine.withWatermark("ts", f"{delay} seconds").createOrReplaceTempView(name)
        self.tj = trijoin_sql.TriJoinSession.create(spark)
        self.found: list[tuple[Any, ...]] = []
        self.query: StreamingQuery | None = None

    def __enter__(self) -> Run:
        groups: Any = self.tj.explain(self.sql).to_dict()["groups"]
        assert [group["decision"]["node"] for group in groups] == ["BiJoin"], "the join has to be ours"
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _start(self) -> None:
        def keep(batch: DataFrame, _: int) -> None:
            self.found += [tuple(row) for row in batch.collect()]

        writer = self.tj.sql(self.sql).writeStream.foreachBatch(keep)
        self.query = writer.option("checkpointLocation", str(self.home / "checkpoint")).start()

    def _stop(self) -> None:
        if self.query is not None:
            self.query.stop()
        self.query = None

    def step(self, step: Step) -> list[Any]:
        """Let the rows of a step come; return its results as they are written in a step."""
        if step.restart:
            self._stop()
            self._start()
        assert self.query is not None
        sides: dict[str, Iterable[Row]] = {"r": step.r, "s": step.s, "both": step.shared}
        rows = [_record(side, row) for side, some in sides.items() for row in some]
        self.found.clear()
        self.tables.add("both", rows, ARROW)
        self.query.processAllAvailable()
        return [_result(row) for row in self.found]


def _record(side: str, row: Row) -> dict[str, Any]:
    key, second = row
    ts = None if second is None else START + datetime.timedelta(seconds=second)
    return {"side": side, "k": key, "second": second, "ts": ts}


def _result(row: tuple[Any, ...]) -> Any:
    if len(row) == 2:
        return row
    return tuple(None if part == (None, None) else part for part in (row[:2], row[2:]))


@contextmanager
def settings(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Set some of Spark's settings for a while."""
    before = {key: spark.conf.get(key, None) for key in conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def play(spark: SparkSession, home: Path, join: Join, form: str, steps: Sequence[Step]) -> None:
    """Run the steps, and compare what comes after each."""
    with settings(spark, join.conf), Run(spark, home, join.sql(form), join) as run:
        for number, step in enumerate(steps):
            assert Counter(run.step(step)) == Counter(step.out), f"step {number} of {join.sql(form)}"


def of(kind: str, pairs: Sequence[Pair] = (), r: Sequence[Pair] = (), s: Sequence[Pair] = ()) -> list[Any]:
    """Return what a kind of join gives of some pairs, and of rows of r and s whose word it is to have no partner."""
    match kind:
        case "SEMI":
            return [one for one, _ in pairs]
        case "ANTI":
            return [one for one, _ in r]
    return [*pairs, *(r if kind in ("LEFT", "FULL") else ()), *(s if kind in ("RIGHT", "FULL") else ())]


#: Each kind of join once with an equality and once without one, over all tests.
FORMS = {"LEFT": "equality", "RIGHT": "band", "FULL": "equality", "SEMI": "subquery", "ANTI": "equality"}
OTHER_FORMS = {"LEFT": "band", "RIGHT": "equality", "FULL": "band", "SEMI": "equality", "ANTI": "subquery"}


@pytest.mark.rare
@pytest.mark.parametrize("kind", ["FULL", "SEMI", "ANTI"])
def test_rows_of_one_window(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Rows without a partner come when the watermark has passed them, others never do; late rows do nothing."""
    steps = [
        Step(of(kind, both(3, 4, 5)), at(1, 2, 3, 4, 5), at(3, 4, 5, 6, 7)),
        Step(of(kind, (), left(1, 2), right(6, 7)), at(21), at(22)),  # the watermark is 11
        Step(of(kind, both(22)), at(22)),  # 12
        Step([], at(1), restart=True),
        Step([], s=at(5)),
        Step(of(kind, both(40), left(21)), at(40), at(40)),  # 30
    ]
    play(spark, tmp_path, Join(kind), FORMS[kind], steps)


@pytest.mark.parametrize("kind", ["LEFT", "SEMI"])
def test_a_condition_on_the_left_side(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """A row that fails it has no partner: that is known when it comes."""
    steps = [
        Step(of(kind, both(3), left(1, 2)), at(1, 2, 3), at(3, 4, 5)),
        Step(of(kind, (), (), right(4, 5)), at(20), at(21)),  # 10
        Step(of(kind, both(20)), s=at(20)),
    ]
    play(spark, tmp_path, Join(kind, also="2 * r.k > 4"), OTHER_FORMS[kind], steps)


@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
def test_a_condition_on_the_right_side(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    steps = [
        Step(of(kind, both(3), (), right(1, 2)), at(3, 4, 5), at(1, 2, 3)),
        Step(of(kind, (), left(4, 5)), at(20), at(21)),  # 10
        Step(of(kind, both(20)), s=at(20)),
    ]
    play(spark, tmp_path, Join(kind, also="3 * s.k > 7"), FORMS[kind], steps)


@pytest.mark.parametrize("kind", ["LEFT", "SEMI"])
def test_times_within_bounds(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    first = [((1, 5), (1, 10))]
    then = [((1, 7), (1, 10)), ((1, 7), (1, 11))]
    steps = [
        Step([], [(1, 5), (3, 5)]),
        Step(of(kind, first), s=[(1, 10), (2, 5)]),
        Step([], s=[(1, 11)]),
        Step(of(kind, then[:1] if kind == "SEMI" else then), [(1, 7), (1, 30)]),
        Step(of(kind, (), [((3, 5), None)], [(None, (2, 5))]), s=[(0, 30)]),  # 20
    ]
    play(spark, tmp_path, Join(kind, near=(5, 5)), OTHER_FORMS[kind], steps)


def test_long_delays_and_bounds(spark: SparkSession, tmp_path: Path) -> None:
    steps = [
        Step([], [(1, 210), (3, 5)]),
        Step([((1, 210), (1, 300))], s=[(1, 300), (2, 5)]),
        Step([], s=[(1, 450)]),
        Step([((1, 260), (1, 300)), ((1, 260), (1, 450))], [(1, 260), (1, 1800)]),
        Step([((3, 5), None), (None, (2, 5))], s=[(0, 1800)]),  # 1200
    ]
    play(spark, tmp_path, Join("FULL", near=(210, 210), delays=(600, 600)), "band", steps)


@pytest.mark.rare
def test_equal_keys_whose_condition_fails(spark: SparkSession, tmp_path: Path) -> None:
    """Rows of one key are no partners yet: at once where one side decides, later where a pair does."""
    also = "2 * r.k > 10 AND (3 * s.k < 300 OR 3 * s.k > 1000)"
    steps = [
        Step(left(1, 2, 3), at(1, 2, 3), at(1, 2, 3)),
        Step([], at(20), at(21)),  # 10
        Step(both(20), s=at(20)),
        Step(both(40, 41), at(40, 41), at(40, 41)),  # 31
        Step([], at(70), at(71)),  # 60
        Step(both(70), s=at(70)),
        Step([], at(101, 102, 103), at(101, 102, 103)),  # 93
        Step(left(101, 102, 103), at(1000), at(1001)),  # 990
    ]
    play(spark, tmp_path, Join("LEFT", also=also), "equality", steps)


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "ANTI"])
def test_spark_26187_a_stream_and_itself(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """A row that has met its partner has none to miss, although that one has gone before it."""
    swapped = kind == "RIGHT"  # all rows are on the preserved side
    rows = {"RIGHT": "LEFT"}.get(kind, kind)
    steps = [
        Step(of(rows, both(2, 4)), shared=at(1, 2, 3, 4, 5)),
        Step(of(rows, both(6, 8, 10)), shared=at(6, 7, 8, 9, 10)),  # 5
        Step(of(rows, both(12, 14), left(1, 3)), shared=at(11, 12, 13, 14, 15)),  # 9
        Step(of(rows, both(16), left(5)), shared=at(16, 17), restart=True),  # 11
    ]
    join = Join(kind, near=(5, 0), delays=(5, 5), even=True, swapped=swapped)
    play(spark, tmp_path, join, OTHER_FORMS[kind], steps)


@pytest.mark.parametrize("form", ["equality", "band"])
def test_spark_32148_unlike_delays_and_days_between(spark: SparkSession, tmp_path: Path, form: str) -> None:
    day, hour = 86400, 3600
    wanted = [
        ((1, 0), None),
        ((1, day), (1, day + 10)),
        ((1, day + hour), (1, day + hour - 1)),
    ]
    step = Step(wanted, [(1, 0), (1, day), (1, day + hour)], [(1, day + 10), (1, day + hour - 1), (1, day + 2 * hour)])
    join = Join("LEFT", near=(30, 30), delays=(120, 240))
    play(spark, tmp_path, join, form, [step])


NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"


@pytest.mark.parametrize("kind", ["FULL", "ANTI"])
def test_spark_38684_rows_come_and_go_in_one_batch(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Only rows let the watermark go on: some of a key leave while others of it find their partner."""
    steps = [
        Step([], [(1, 0)], [(1, 60)]),
        Step([], [(1, 3600)], [(1, 3660)]),  # 0
        Step(of(kind, (), [((1, 0), None)], [(None, (1, 60))]), [(1, 5400)]),  # 3600
        Step(of(kind, [((1, 5400), (1, 5410))], [((1, 3600), None)]), s=[(1, 5410)]),  # 3660
        Step(of(kind, (), (), [(None, (1, 3660))]), [(2, 9000)], [(3, 9000)]),  # 5400
    ]
    join = Join(kind, near=(30, 30), delays=(0, 0), conf={NO_DATA: "false"})
    play(spark, tmp_path, join, FORMS[kind], steps)


@pytest.mark.parametrize("kind", ["FULL", "ANTI"])
def test_spark_49829_rows_between_two_watermarks(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Not late, for they are above the watermark of the batch before, and over by that of theirs: they count."""
    steps = [
        Step(of(kind, both(50)), at(50), at(50)),
        Step(
            of(kind, [((6, 31), (6, 33))], [((5, 30), None)], [(None, (7, 32))]),  # 40
            [(5, 30), (6, 31)],
            [(6, 33), (7, 32)],
        ),
        Step([], [(8, 40)], [(8, 40)]),  # late by now
        Step(of(kind, both(90)), at(90), at(90)),  # 40
    ]
    join = Join(kind, conf={NO_DATA: "false"})
    play(spark, tmp_path, join, FORMS[kind], steps)


@pytest.mark.parametrize("kind", ["LEFT", "ANTI"])
def test_not_before_the_watermark_and_not_after_it(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """A partner may be five seconds later. At 14 it still comes; at 15 it would be late."""
    steps = [
        Step([], [(1, 10), (2, 10), (3, 9)]),
        Step(of(kind, both(24), [((3, 9), None)]), at(24), at(24)),  # 14
        Step(of(kind, [((1, 10), (1, 15))]), s=[(1, 15)]),
        Step(of(kind, both(25), [((2, 10), None)]), at(25), at(25)),  # 15
        Step([], s=[(2, 15)]),
    ]
    play(spark, tmp_path, Join(kind, near=(5, 5)), OTHER_FORMS[kind], steps)


@pytest.mark.parametrize("kind", ["FULL", "SEMI"])
def test_late_rows_of_either_side(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """A row at the watermark is late, and gives nothing; one above it counts, also for rows stored before."""
    known = range(22, 30)  # a unit hears of a watermark when it has rows or timers
    steps = [
        Step(of(kind, both(30)), at(30), at(30)),  # 20
        Step(of(kind, both(*known)), at(*known), at(*known)),
        Step([], [(5, 20), (6, 21)], [(7, 20), (8, 21)]),
        Step(of(kind, [((6, 21), (6, 25))]), [(7, 22)], [(6, 25), (5, 20), (7, 20)]),
        Step(of(kind, both(50), [((7, 22), None)], [(None, (8, 21))]), at(50), at(50)),  # 40
    ]
    play(spark, tmp_path, Join(kind), OTHER_FORMS[kind], steps)


NULL_ROWS: tuple[list[Row], list[Row]] = (
    [(1, 1), (None, 2), (1, 3), (None, 4), (1, 5)],
    [(1, 3), (None, 4), (1, 5), (1, 6)],
)


@pytest.mark.parametrize("kind", ["LEFT", "ANTI"])
def test_null_keys_that_are_alike(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    one, other = NULL_ROWS
    pairs = [((1, 3), (1, 3)), ((None, 4), (None, 4)), ((1, 5), (1, 5))]
    steps = [
        Step(of(kind, pairs), one, other),
        Step(of(kind, (), [((1, 1), None), ((None, 2), None)], [(None, (1, 6))]), at(21), at(22)),  # 11
    ]
    join = Join(kind, also="ABS(r.second - s.second) < 1", equal="r.k <=> s.k")
    play(spark, tmp_path, join, "equality", steps)


@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
def test_null_keys_that_equal_nothing(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Such a row has no partner whatever comes, so it does not wait."""
    one, other = NULL_ROWS
    pairs = [((1, 3), (1, 3)), ((1, 5), (1, 5))]
    nulls: list[Pair] = [((None, 2), None), ((None, 4), None)]
    steps = [
        Step(of(kind, pairs, nulls, [(None, (None, 4))]), one, other),
        Step(of(kind, (), [((1, 1), None)], [(None, (1, 6))]), at(21), at(22)),  # 11
    ]
    play(spark, tmp_path, Join(kind, also="ABS(r.second - s.second) < 1"), FORMS[kind], steps)


def test_rows_without_a_time(spark: SparkSession, tmp_path: Path) -> None:
    """They are never late, and have no partner."""
    steps = [
        Step([((1, None), None), (None, (1, None))], [(1, None), (1, 1)], [(1, None)]),
        Step([*both(40), ((1, 1), None)], at(40), at(40)),  # 30
        Step([((1, None), None)], [(1, None)], restart=True),
    ]
    play(spark, tmp_path, Join("FULL"), "band", steps)


POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


@pytest.mark.parametrize("kind", ["FULL"])
@pytest.mark.parametrize("policy", ["min", "max"])
def test_policies_of_several_watermarks(spark: SparkSession, tmp_path: Path, kind: str, policy: str) -> None:
    """By ``min`` the slower side decides, by ``max`` the faster one: then rows of the other are late."""
    pair = [((1, 1), (1, 3))]
    if policy == "min":
        steps = [
            Step([], [(1, 1)], [(9, 2)]),
            Step([], [(2, 40)]),
            Step(of(kind, pair), s=[(1, 3)]),
            Step(of(kind, [((2, 40), (2, 41))], (), [(None, (9, 2))]), s=[(2, 41)]),  # 30
        ]
    else:
        steps = [
            Step([], [(1, 1)], [(9, 2)]),
            Step(of(kind, (), [((1, 1), None)], [(None, (9, 2))]), [(2, 40)]),  # 30
            Step([], s=[(1, 3)]),
            Step(of(kind, [((2, 40), (2, 41))]), s=[(2, 41)]),  # 31
        ]
    play(spark, tmp_path, Join(kind, conf={POLICY: policy}), FORMS[kind], steps)


@pytest.mark.rare
@pytest.mark.parametrize("form", ["equality", "subquery"])
def test_a_semi_join_gives_a_row_at_its_first_partner(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """Once for each of two rows that are alike, whatever follows, and across a restart."""
    steps = [
        Step([], [(1, 1), (1, 1), (2, 1)]),
        Step([(1, 1), (1, 1)], s=[(1, 2), (1, 2)]),
        Step([], s=[(1, 3)], restart=True),
        Step([(1, 4)], [(1, 4)]),
        Step([(2, 1)], s=[(2, 2), (1, 5)]),
        Step([], [(9, 90)], [(8, 90)]),  # 80
        Step([], s=[(2, 91)]),
    ]
    play(spark, tmp_path, Join("SEMI"), form, steps)


@pytest.mark.parametrize("kind", ["LEFT", "ANTI"])
def test_rows_that_are_alike(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    pair, alone = ((1, 1), (1, 2)), ((2, 1), None)
    steps = [
        Step(of(kind, [pair] * 4), [(1, 1), (1, 1), (2, 1), (2, 1)], [(1, 2), (1, 2), (3, 2), (3, 2)]),
        Step(of(kind, (), [alone] * 2, [(None, (3, 2))] * 2), [(8, 50)], [(9, 50)]),  # 40
    ]
    play(spark, tmp_path, Join(kind), OTHER_FORMS[kind], steps)


@pytest.mark.rare
@pytest.mark.parametrize("kind", ["FULL", "ANTI"])
def test_restarts_keep_who_has_met_a_partner(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    steps = [
        Step(of(kind, [((1, 1), (1, 2))]), [(1, 1), (2, 2)], [(1, 2), (3, 2)]),
        Step([], restart=True),
        Step(of(kind, [((1, 3), (1, 2))]), [(1, 3)]),
        Step(of(kind, (), [((2, 2), None)], [(None, (3, 2))]), [(8, 50)], [(9, 50)], restart=True),  # 40
        Step(of(kind, (), [((8, 50), None)], [(None, (9, 50))]), [(8, 90)], [(9, 90)], restart=True),  # 80
    ]
    play(spark, tmp_path, Join(kind), FORMS[kind], steps)


@pytest.mark.rare
@pytest.mark.parametrize("kind", ["LEFT", "ANTI"])
def test_an_idle_side_and_batches_without_rows(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """A side that brings nothing holds the watermark back, and so the rows; they leave when it wakes."""
    steps = [
        Step([], at(1)),
        Step([]),
        Step([], at(100)),
        Step([], at(1000)),
        Step(of(kind, both(1000), left(1, 100)), s=at(1000)),  # 990
        Step([]),
        Step([], at(2000)),
        # Spark knows the watermark again, but not how far each side was: r holds it back until it brings a row.
        Step([], s=at(2001), restart=True),
        Step(of(kind, both(2001), left(2000)), at(2001, 2010), at(2020)),  # 2000
    ]
    play(spark, tmp_path, Join(kind, near=(0, 0)), OTHER_FORMS[kind], steps)


@pytest.mark.parametrize("kind", ["FULL", "SEMI"])
def test_state_goes_at_the_watermark(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """Rows of both sides go, whether they have met a partner or not; the youngest stay."""
    join = Join(kind, near=(5, 5))
    with Run(spark, tmp_path, join.sql(FORMS[kind]), join) as run:
        run.step(Step([], [(1, 5), (3, 5)], [(3, 6), (2, 6)]))
        run.step(Step([], [(4, 30)], [(5, 31)]))  # 20
        run.step(Step([], [(4, 60)], [(5, 61)]))  # 50
    kept = Counter[str]()
    for store in read_state(spark, tmp_path / "checkpoint").stores:
        kept[store.store] += store.rows
    copies = 2 if FORMS[kind] != "equality" and kind in ("LEFT", "RIGHT", "SEMI", "ANTI") else 1
    untested = {"LEFT": "s", "SEMI": "s", "ANTI": "s", "RIGHT": "r"}.get(kind)
    assert kept == {name: copies if name == untested else 1 for name in "rs"}
