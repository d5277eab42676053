"""Traps 20 and 22 to 24: other settings at a restart, attempts that are repeated, late, or lost.

Crashes of whole processes are in ``crash/``.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from trijoin_sql.operators.state import warm

import trijoin_sql
from trijoin_sql.spark.messages import reason

from .sessions import local_session
from .streaming.differential import Bag, Tables, bag

ROWS = [{"id": number, "k": number % 3, "x": number % 5} for number in range(24)]
SCHEMA = "id bigint, k int, x int"
ARROW = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("x", pa.int32())])
SQL = (
    "SELECT /*+ {hint} */ r.id AS r, s.id AS s, t.id AS t FROM r JOIN s ON r.x < s.x JOIN t ON s.k = t.k AND s.x <= t.x"
)
PARTITIONS = "spark.sql.shuffle.partitions"
WHOLE_BATCHES = "spark.trijoin.liberties.wholeBatches"
HINTS = ["SCHEME('semi_symmetric'), UNITS(2)", "SCHEME('symmetric'), UNITS(2)"]

Write = Callable[[DataFrame, int], None]


def streams(spark: SparkSession, folder: Path) -> Tables:
    """Make three streams of four micro-batches."""
    made = Tables(spark, folder)
    for name in "rst":
        made.create(name, [ROWS[start : start + 6] for start in range(0, 24, 6)], SCHEMA, ARROW)
    return made


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> Tables:
    """Three streams of four micro-batches."""
    return streams(spark, tmp_path / "tables")


def run(tables: Tables, hint: str, checkpoint: Path, write: Write) -> None:
    """Run what is there, as a new driver would."""
    tables.use(streaming=True)
    frame = trijoin_sql.TriJoinSession.create(tables.spark).sql(SQL.format(hint=hint))
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def wanted(tables: Tables, hint: str) -> Bag:
    tables.use(streaming=False)
    return bag(tables.spark.sql(SQL.format(hint=hint)).collect())


@pytest.fixture
def forget() -> Callable[[], None]:
    """Lose the warm copies made since the test's start, so that the state store alone decides."""
    before = set(warm.root().glob("*"))

    def lose() -> None:
        mine = set(warm.root().glob("*")) - before
        assert mine, "there is no warm copy to lose"
        for directory in mine:
            shutil.rmtree(directory, ignore_errors=True)

    return lose


@pytest.mark.rare
@pytest.mark.parametrize(
    ("hint", "partitions"), [(HINTS[0], "5"), (HINTS[1], "1"), ("SCHEME('matrix'), UNITS(3)", "5")]
)
def test_trap_20_other_partitions_at_a_restart(
    tables: Tables, tmp_path: Path, forget: Callable[[], None], hint: str, partitions: str
) -> None:
    """The state of a slot stays in the partition that it was written in, whatever the session says by then."""
    checkpoint, kept = tmp_path / "checkpoint", {}

    def write(frame: DataFrame, batch: int) -> None:
        kept[batch] = bag(frame.collect())
        if batch == 1 and len(kept) == 2 and tables.spark.conf.get(PARTITIONS) != partitions:
            raise InterruptedError

    before = str(tables.spark.conf.get(PARTITIONS))
    with pytest.raises(StreamingQueryException):
        run(tables, hint, checkpoint, write)
    forget()
    tables.spark.conf.set(PARTITIONS, partitions)
    try:
        run(tables, hint, checkpoint, write)
    finally:
        tables.spark.conf.set(PARTITIONS, before)
    assert len(kept) == 4
    assert len(list(checkpoint.glob("state/0/[0-9]*"))) == int(before), "Spark keeps what the checkpoint has"
    assert sum(kept.values(), bag([])) == wanted(tables, hint)


def test_trap_22_zombie_task(tables: Tables, tmp_path: Path, forget: Callable[[], None]) -> None:
    """An attempt that failed writes its state after the one that was committed: it must never be read.

    The batch runs twice, since its sink fails once. Then the first attempt's state files come in late, with what a
    zombie would have: something else.
    """
    checkpoint, kept = tmp_path / "checkpoint", {}
    first: list[Path] = []

    def write(frame: DataFrame, batch: int) -> None:
        kept[batch] = bag(frame.collect())
        if batch == 1 and not first:
            first.extend(checkpoint.glob("state/*/*/2_*.changelog"))
            raise RuntimeError("lost")
        if batch == 2:
            raise InterruptedError

    for _ in range(2):
        with pytest.raises(StreamingQueryException):
            run(tables, HINTS[0], checkpoint, write)
    second = set(checkpoint.glob("state/*/*/2_*.changelog")) - set(first)
    assert len(first) == len(second) == 4, "both attempts wrote every partition of both stages, under their own names"
    for path in first:
        path.write_bytes(b"written by a zombie")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    forget()
    run(tables, HINTS[0], checkpoint, lambda frame, batch: kept.update({batch: bag(frame.collect())}))
    assert sum(kept.values(), bag([])) == wanted(tables, HINTS[0])


def test_trap_23_the_plan_is_computed_twice(tables: Tables, tmp_path: Path) -> None:
    """Two actions in `foreachBatch` run the join twice on one micro-batch: equal rows, and state as if it ran once."""
    seen: dict[int, list[Bag]] = {}

    def write(frame: DataFrame, batch: int) -> None:
        seen[batch] = [bag(frame.collect()) for _ in range(2)]

    run(tables, HINTS[1], tmp_path / "checkpoint", write)
    assert all(one == other for one, other in seen.values())
    assert sum((one for one, _ in seen.values()), bag([])) == wanted(tables, HINTS[1])


def lose_the_files_of_a_shuffle(folder: Path) -> None:
    """Run the join in a session of its own, whose second and third micro-batch lose what the join wrote."""
    settings = {"spark.executor.heartbeat.maxFailures": str(2**31 - 1)}  # the lost executor would end the JVM
    session = local_session(folder, "stage retry", settings)
    session.sparkContext.setLogLevel("OFF")
    tables = streams(session, folder / "tables")
    kept: dict[int, Bag] = {}
    flags = folder / "flags"
    flags.mkdir()

    def write(frame: DataFrame, batch: int) -> None:
        def lose(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            flag = flags / str(batch)
            if batch in (1, 2) and not flag.exists():
                flag.touch()
                lost = 0
                for home, _, names in os.walk(folder / "local"):  # Spark deletes others at the same time
                    for path in (Path(home, name) for name in fnmatch.filter(names, "shuffle_*.data")):
                        with suppress(FileNotFoundError):
                            lost += path.stat().st_size > 0
                            path.unlink()
                (flags / f"{batch}-lost").write_text(str(lost))
                raise OSError("the machine with the shuffle files is gone")
            yield from batches

        wide = frame.repartition(2, "r")
        kept[batch] = bag(wide.mapInArrow(lose, wide.schema).collect())

    run(tables, HINTS[0], folder / "checkpoint", write)
    assert (flags / "1-lost").read_text() != "0"
    assert sum(kept.values(), bag([])) == wanted(tables, HINTS[0])


@pytest.mark.rare
@pytest.mark.slow
def test_trap_23_stage_retry(tmp_path: Path) -> None:
    """The join's output is lost behind the next shuffle: Spark runs the join's stage again, after it saved state.

    Spark then takes its executor for lost. A local one never comes back, and with it no result of more than 1 MiB: so
    this is a process of its own.
    """
    process = get_context("spawn").Process(target=lose_the_files_of_a_shuffle, args=(tmp_path,))
    process.start()
    process.join()
    assert process.exitcode == 0


@pytest.mark.rare
def test_trap_24_sink_replays(tables: Tables, tmp_path: Path) -> None:
    """Before and after the sink's write, and after it without a commit, each twice in a row."""
    checkpoint, kept = tmp_path / "checkpoint", {}
    tries: list[int] = []

    def write(frame: DataFrame, batch: int) -> None:
        tries.append(batch)
        if batch == 1 and tries.count(1) <= 2:
            raise RuntimeError("before the write")
        rows = bag(frame.collect())
        assert kept.setdefault(batch, rows) == rows
        if batch == 2 and tries.count(2) <= 2:
            raise RuntimeError("after the write")

    for _ in range(4):
        with pytest.raises(StreamingQueryException):
            run(tables, HINTS[0], checkpoint, write)
    run(tables, HINTS[0], checkpoint, write)
    for _ in range(2):  # the process ended between the write and the commit
        for name in ("3", ".3.crc"):
            (checkpoint / "commits" / name).unlink(missing_ok=name.endswith(".crc"))
        run(tables, HINTS[0], checkpoint, write)
    assert tries == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert sum(kept.values(), bag([])) == wanted(tables, HINTS[0])


@pytest.fixture
def by_hand(spark: SparkSession) -> Iterator[None]:
    """A session whose user does not want us before the sinks of queries."""
    spark.conf.set(WHOLE_BATCHES, "false")
    yield
    spark.conf.set(WHOLE_BATCHES, "true")


@pytest.mark.rare
def test_trap_24_rows_that_a_function_does_not_ask_for(tables: Tables, tmp_path: Path) -> None:
    """They are computed all the same, in every micro-batch, or no state would be saved and Spark could not go on.

    The last micro-batch has all results of rows before it, and so shows whether their state was there.
    """
    checkpoint, kept = tmp_path / "checkpoint", {}
    asks = [lambda frame: frame.show(1), lambda frame: None, lambda frame: (frame.isEmpty(), frame.head(1))]

    def write(frame: DataFrame, batch: int) -> None:
        if batch < len(asks):
            asks[batch](frame)
        else:
            kept[batch] = bag(frame.collect())

    run(tables, HINTS[1], checkpoint, write)
    for name in ("3", ".3.crc"):  # the process ended between the write and the commit: the function has that batch
        (checkpoint / "commits" / name).unlink(missing_ok=name.endswith(".crc"))
    asks += [lambda frame: None]
    run(tables, HINTS[1], checkpoint, write)
    assert (checkpoint / "commits" / "3").exists()
    every = {}
    run(tables, HINTS[1], tmp_path / "another", lambda frame, batch: every.update({batch: bag(frame.collect())}))
    assert kept == {3: every[3]}
    assert every[3]


@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize("asks_for", ["nothing", "all rows, and lets them go"])
def test_trap_24_a_function_that_skips_a_repeated_batch_by_hand(
    tables: Tables, tmp_path: Path, caplog: pytest.LogCaptureFixture, asks_for: str
) -> None:
    """Without us before its sink, a query that skips one fails, and we say what to call."""
    checkpoint, kept = tmp_path / "checkpoint", {}

    def write(frame: DataFrame, batch: int) -> None:
        if batch not in kept:
            kept[batch] = bag(frame.collect())
        elif asks_for != "nothing":
            assert bag(frame.persist().collect()) == kept[batch]
            frame.unpersist()

    def start() -> None:
        run(tables, HINTS[1], checkpoint, trijoin_sql.recover_foreach_batch(tables.spark, str(checkpoint), write))

    start()
    for name in ("3", ".3.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=name.endswith(".crc"))
    if asks_for == "nothing":
        with pytest.raises(StreamingQueryException, match="CheckpointInfo length") as caught:
            run(tables, HINTS[1], checkpoint, write)
        assert "recover_foreach_batch" in reason(caught.value)
        tables.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # type: ignore[union-attr]
        assert sum("recover_foreach_batch" in line for line in caplog.messages) == 1
    start()
    assert (checkpoint / "commits" / "3").exists()
    assert sum(kept.values(), bag([])) == wanted(tables, HINTS[1])


def without_commits(checkpoint: Path, out: Path, batch: int) -> None:
    """Leave what a driver leaves that ends after the sink noted a batch, and before the checkpoint did."""
    for log, first in (
        (checkpoint / "commits", batch),
        (checkpoint / "offsets", batch + 1),
        (out / "_spark_metadata", batch + 1),
    ):
        for path in log.iterdir():
            number = path.name.lstrip(".").partition(".")[0]
            if number.isdigit() and int(number) >= first:
                path.unlink()


def to_files(tables: Tables, checkpoint: Path, out: Path) -> None:
    """Run what is there, as a user's driver does who knows nothing of crashes."""
    tables.use(streaming=True)
    frame = trijoin_sql.TriJoinSession.create(tables.spark).sql(SQL.format(hint=HINTS[1]))
    writer = frame.writeStream.format("parquet").option("path", str(out))
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


def test_trap_24_file_sink(tables: Tables, tmp_path: Path, forget: Callable[[], None]) -> None:
    """A file sink skips a batch that it has noted; its state is saved all the same, and the files stay.

    With another checkpoint it would skip all batches of the same numbers, in silence: that is refused.
    """
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out and %41"
    to_files(tables, checkpoint, out)
    without_commits(checkpoint, out, 2)
    forget()
    before = set(out.glob("part-*"))
    to_files(tables, checkpoint, out)
    assert bag(tables.spark.read.parquet(str(out)).collect()) == wanted(tables, HINTS[1])
    assert before <= set(out.glob("part-*"))
    with pytest.raises(StreamingQueryException, match=r"TRIJOIN_SINK_MISMATCH.*another is new.* up to 3, which"):
        to_files(tables, tmp_path / "another", out)


@pytest.mark.usefixtures("by_hand")
@pytest.mark.parametrize("compact", [10, 3])
def test_trap_24_file_sink_by_hand(tables: Tables, tmp_path: Path, forget: Callable[[], None], compact: int) -> None:
    """The sink's note is taken back; it may be one of a file for several batches."""
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "out and %41"
    tables.spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", str(compact))

    def start() -> None:
        to_files(tables, checkpoint, out)

    try:
        assert trijoin_sql.recover_file_sink(tables.spark, str(checkpoint), str(out)) is None
        start()
        assert trijoin_sql.recover_file_sink(tables.spark, str(checkpoint), str(out)) is None
        without_commits(checkpoint, out, 2)
        forget()
        if compact == 3:
            with pytest.raises(StreamingQueryException, match="CheckpointInfo length"):
                start()
        assert trijoin_sql.recover_file_sink(tables.spark, str(checkpoint), str(out)) == 2
        start()
    finally:
        tables.spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")
    assert bag(tables.spark.read.parquet(str(out)).collect()) == wanted(tables, HINTS[1])
    with pytest.raises(trijoin_sql.InvalidSettingError, match="not of one query"):
        trijoin_sql.recover_file_sink(tables.spark, str(tmp_path / "another"), str(out))
