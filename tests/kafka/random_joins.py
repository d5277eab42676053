"""Random joins with ``TRIGGER REAL TIME`` through a broker, killed as they run: ``python -m tests.kafka.random_joins``.

``--kills 20`` runs some random queries (``--count``) as jobs, Kafka to Kafka, and kills them that often with SIGKILL,
JVM included: while they start, around the end of a batch, and mostly in the middle of one, while rows come. Each goes
on from its checkpoint. In the end the topic of results has each result of Spark batch over all rows, and no other one.
Kafka's sink is written at least once, so a result may come again after a kill; but not after a batch was committed that
read all of its rows.

``--boundaries 20`` kills nothing: rows with bounds in time come evenly across that many ends of batches, and expire
there. Each result comes once.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from .. import maven_jars
from ..sessions import local_session
from ..streaming.differential import SCHEMA
from ..streaming.real_time import lines_of, random_query
from .broker import broker

#: Seconds that a start, a result or a stop may take.
PATIENCE = 120
#: By the number of streams: rows of each. A query has so many results, else another one is drawn.
ROWS, RESULTS = {2: 120, 3: 80, 4: 40}, range(30, 20_000)
#: Seconds in event time between the rows of a result, where rows have to expire. A row comes a second.
WITHIN = 9
#: When a job is killed.
MOMENTS = ("start", "end", "middle", "middle", "middle")

FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"
STREAM = """\
CREATE STREAM {name}_topic USING kafka
  OPTIONS (kafka.bootstrap.servers '{address}', subscribe '{topic}', startingOffsets 'earliest');
CREATE TEMPORARY VIEW {name} AS SELECT row.*, TIMESTAMP_SECONDS(row.u) AS at FROM (SELECT
  FROM_JSON(CAST(value AS STRING), '{schema}', MAP('timestampNTZFormat', "{format}")) AS row FROM {name}_topic);
"""
SINK = """\
CREATE SINK found USING kafka OPTIONS (kafka.bootstrap.servers '{address}', topic '{topic}', checkpointLocation 'state')
  TRIGGER REAL TIME '{batch} seconds';
INSERT INTO found
"""
#: A result is told by the numbers of its rows.
RESULT = "SELECT CONCAT_WS('-', {numbers}) AS key, TO_JSON(STRUCT(*)) AS value FROM ({sql})"


class WrongError(Exception):
    """A run is wrong; the message says how."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A random query.

    Parameters
    ----------
    seed
        What it was drawn from.
    sql
        As the job has it.
    lines
        By stream: its rows, as JSON.
    partitions
        Of each topic.
    wanted
        What Spark batch says: keys and values.
    expires
        Whether rows are kept for a time only.
    """

    seed: int
    sql: str
    lines: dict[str, list[str]]
    partitions: int
    wanted: frozenset[str]
    expires: bool


def draw(spark: SparkSession, seed: int, *, rows: int | None = None) -> Drawn:
    """Draw a query with a fair number of results.

    Parameters
    ----------
    spark
        A session; it has Spark's own plans, not ours.
    seed
        What is drawn follows from it.
    rows
        Of each stream, all of which have ``WITHIN`` then.
    """
    dice, own = Random(seed), spark.newSession()
    while True:
        sql, names = random_query(dice)
        within = ""
        if rows is not None:
            sql, within = re.sub(r" AND \w+\.at BETWEEN .*", "", sql), f" WITHIN {WITHIN} SECONDS"
        count = rows or ROWS[len(names)]
        lines = {name: lines_of(own, dice.randrange(1 << 30), count) for name in names}
        for name in names:
            text = own.createDataFrame([(line,) for line in lines[name]], "value string")
            row = F.from_json("value", f"{SCHEMA}, u bigint", {"timestampNTZFormat": FORMAT}).alias("row")
            text.select(row).selectExpr("row.*", "TIMESTAMP_SECONDS(row.u) AS at").createOrReplaceTempView(name)
        numbers = ", ".join(f"{name}_u" for name in names)
        near = [f"ABS({one}.at - {other}.at) <= INTERVAL {WITHIN} SECONDS" for one, other in combinations(names, 2)]
        where = "" if not within else f" {'AND' if ' WHERE ' in sql else 'WHERE'} {' AND '.join(near)}"
        in_batch = RESULT.format(numbers=numbers, sql=sql.replace("/*+", "/*") + where)
        try:
            found = own.sql(in_batch).limit(RESULTS.stop).collect()
        except PySparkException:  # it overflows
            continue
        if len(found) not in RESULTS:
            continue
        wanted = frozenset(f"{key} {value}" for key, value in found)
        assert len(wanted) == len(found)
        expires = rows is not None or ".at BETWEEN " in sql
        # One row of a stream comes after the other in one partition alone: then none is late, whatever the delay.
        partitions = 1 if expires else dice.choice([1, 2])
        watermark = r"\1 \2 WATERMARK at DELAY OF INTERVAL 0 SECONDS AS \2"
        sql = re.sub(r"\b(FROM|JOIN) (\w+)\b", watermark, sql) + within
        return Drawn(seed, RESULT.format(numbers=numbers, sql=sql), lines, partitions, wanted, expires)


class Job:
    """A job in a folder, which runs in a session of its own: Python and its JVM.

    Parameters
    ----------
    folder
        With job.sql, and its checkpoint.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, folder / "said.txt"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, or go on."""
        jars = str(maven_jars.connector()[1])
        settings = {
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.sql.streaming.realTimeMode.minBatchDuration": "1s",
        }
        command = [sys.executable, "-m", "trijoin_sql", "run", "job.sql", "--master", "local[16]", "--jars", jars]
        command += ["--quiet"]
        for setting in settings.items():
            command += ["--conf", "=".join(setting)]
        with self.said.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env={**os.environ, "TZ": "UTC"},
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise if it has ended by itself."""
        if self.process is None or self.process.poll() is not None:
            raise WrongError(f"the job ended by itself: {self.tail()}")

    def kill(self) -> None:
        """Kill it and its JVM, if they run."""
        if self.process is None:
            return
        while found := _in_session(self.process.pid):
            for number in found:
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            self.process.wait()
            time.sleep(0.01)

    def stop(self) -> None:
        """Ask it to stop, and wait."""
        self.check()
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise WrongError(f"the job does not stop: {self.tail()}") from None
        if code:
            raise WrongError(f"the job ended with {code}: {self.tail()}")

    def last(self, log: str) -> int:
        """Return the last batch in a log: ``state`` is written as a batch ends, then ``offsets``, then ``commits``."""
        place = self.folder / "state"
        if log == "state":  # its first version is 1
            return max((int(one.name.split("_")[0]) - 1 for one in place.glob("state/0/*/*_*.changelog")), default=-1)
        return max((int(one.name) for one in (place / log).glob("*") if one.name.isdigit()), default=-1)

    def tail(self) -> str:
        """Return the end of what it said."""
        return self.said.read_text("utf-8", "replace")[-1500:]


def _in_session(session: int) -> list[int]:
    """Return the processes of a session of the system; those that have ended do not count."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, _, _, of, *_ = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            if int(of) == session and state not in "ZX":
                found.append(int(entry.name))
    return sorted(found, reverse=True)  # the JVM first


class Results:
    """What is in the topic of results.

    Parameters
    ----------
    address, topic
        Where it is; it has one partition.
    """

    def __init__(self, address: str, topic: str) -> None:
        settings = {"bootstrap.servers": address, "group.id": topic, "enable.auto.commit": False}
        self.consumer, self.partition, self.next = Consumer(settings), TopicPartition(topic, 0), 0
        self.consumer.assign([TopicPartition(topic, 0, 0)])

    def new(self) -> list[str]:
        """Return all that has come since the last call: keys and values."""
        _, end = self.consumer.get_watermark_offsets(self.partition, timeout=PATIENCE)
        found = []
        while self.next < end:
            for record in self.consumer.consume(min(end - self.next, 10_000), timeout=1):
                if record.error() is not None:
                    raise WrongError(f"the broker says: {record.error()}")
                self.next = (record.offset() or 0) + 1
                key, value = record.key(), record.value()
                found.append(f"{key.decode() if key else key} {value.decode() if value else value}")
        return found


@dataclass(slots=True)
class Run:
    """A query while it runs and is killed.

    Parameters
    ----------
    drawn, address, folder
        The query, the broker, and a folder for the job.
    dice
        Draws what happens.
    batch
        Seconds that a batch lasts.
    """

    drawn: Drawn
    address: str
    folder: Path
    dice: Random
    batch: float
    job: Job = field(init=False)
    results: Results = field(init=False)
    producer: Producer = field(init=False)
    topics: dict[str, str] = field(init=False)
    sent: int = 0
    #: The results, and how many came with the repeats.
    found: set[str] = field(default_factory=set)
    came: int = 0
    #: By topic and partition: where the last committed batch ended. What came later though its rows lie before that.
    ends: dict[str, Any] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)
    kills: Counter[str] = field(default_factory=Counter)
    #: Seconds that a start takes, until the first result or end of a batch.
    warm: float = 15.0
    #: Ends of batches while rows came.
    passed: int = 0
    _due: float = 0.0

    def __post_init__(self) -> None:
        name = f"{self.folder.name}-{time.time_ns()}"
        self.topics = {stream: f"{stream}-{name}" for stream in self.drawn.lines}
        made = [NewTopic(topic, self.drawn.partitions, 1) for topic in self.topics.values()]
        admin = AdminClient({"bootstrap.servers": self.address})
        for topic in admin.create_topics([*made, NewTopic(name, 1, 1)]).values():
            topic.result(PATIENCE)
        schema = f"{SCHEMA}, u bigint"
        streams = [
            STREAM.format(name=stream, address=self.address, topic=topic, schema=schema, format=FORMAT)
            for stream, topic in self.topics.items()
        ]
        sink = SINK.format(address=self.address, topic=name, batch=self.batch)
        self.folder.mkdir()
        (self.folder / "job.sql").write_text("".join([*streams, sink, self.drawn.sql, ";\n"]), "utf-8")
        self.job, self.results = Job(self.folder), Results(self.address, name)
        self.producer = Producer({"bootstrap.servers": self.address, "linger.ms": 1})

    @property
    def rows(self) -> int:
        """How many rows each stream has."""
        return max(map(len, self.drawn.lines.values()))

    def send(self, until: float) -> None:
        """Send the next rows of all streams, until a number of rows of each."""
        upto = min(int(until), self.rows)
        for at in range(self.sent, upto):
            for stream, lines in self.drawn.lines.items():
                self.producer.produce(self.topics[stream], lines[at], partition=at % self.drawn.partitions)
        self.sent = max(self.sent, upto)
        if self.producer.flush(PATIENCE):
            raise WrongError("the broker does not take rows")

    def look(self) -> None:
        """Read results. One of a committed batch that comes after its commit is noted."""
        committed = self.job.last("commits")
        for result in self.results.new():
            if self._is_committed(result):
                self.late.add(result)
            self.found.add(result)
            self.came += 1
        if committed >= 0:
            lines = (self.folder / "state" / "offsets" / str(committed)).read_text("utf-8").splitlines()[2:]
            self.ends = {topic: ends for line in lines for topic, ends in json.loads(line).items()}

    def _is_committed(self, result: str) -> bool:
        """Return whether a committed batch, or one before it, has read the last of a result's rows."""
        numbers, count = map(int, result.partition(" ")[0].split("-")), self.drawn.partitions
        ends = [self.ends.get(topic, {}) for topic in self.topics.values()]
        return all(number // count < end.get(str(number % count), 0) for number, end in zip(numbers, ends, strict=True))

    def waits(self, seconds: float, pace: float, until: int) -> Iterator[None]:
        """Look, and send rows at a pace (rows a second) with random pauses, until some are sent; yield after each."""
        end, begun, before = time.monotonic() + seconds, time.monotonic(), self.sent
        while (now := time.monotonic()) < end:
            if now >= self._due and self.sent < until:
                self.send(min(before + (now - begun) * pace + 1, until))
                self._due = now + self.dice.uniform(0.02, 0.6)
            self.job.check()
            self.look()
            yield
            time.sleep(min(0.03, max(end - time.monotonic(), 0)))

    def life(self, moment: str, until: int) -> None:
        """Start the job, send rows until a number of them, and kill it at a moment."""
        ends = self.dice.choice([0, 0, 1, 2]) + (moment == "end")
        begun, came, batch, commits = time.monotonic(), self.came, self.job.last("offsets"), self.job.last("commits")
        pace = (until - self.sent) / (self.warm + (ends + 0.5) * self.batch)
        self.job.start()
        if moment == "start":
            for _ in self.waits(self.dice.uniform(0.1, 1.2) * self.warm, pace, until):
                pass
        else:
            for _ in self.waits(PATIENCE, pace, (2 * self.sent + until) // 3):  # the others come when it runs
                if self.came > came or self.job.last("offsets") > batch:
                    break
            else:
                raise WrongError(f"no result and no end of a batch in {PATIENCE} s: {self.job.tail()}")
            self.warm = time.monotonic() - begun
            pace = (until - self.sent) / ((ends + 0.5) * self.batch)
            log, batch = self.dice.choice(["state", "offsets", "commits"]), self.job.last("commits")
            for _ in self.waits(PATIENCE if ends else 0, pace, until):
                if self.job.last("commits") >= batch + ends - (moment == "end"):
                    break
            part, came = self.dice.uniform(0.1, 0.9) if moment == "middle" else 0.8, self.came
            for _ in self.waits(part * self.batch, pace, until):
                pass
            if moment == "middle":  # a result is out whose batch has not ended
                for _ in self.waits(self.batch, pace, until):
                    if self.came > came:
                        break
            else:  # from a little before the end on: by the clock, or as its files appear
                late = PATIENCE if self.dice.random() < 0.6 else self.dice.uniform(0, 0.5) * self.batch
                late += time.monotonic()
                while time.monotonic() < late and self.job.last(log) < batch + ends:
                    time.sleep(0.001)
                time.sleep(self.dice.choice([0, 0.01, 0.05, 0.2]) * self.dice.random())
        self.job.check()
        self.job.kill()
        self.kills[moment] += 1
        self.passed += self.job.last("commits") - commits
        if self.dice.random() < 0.3:  # rows come while nobody reads them
            self.send(until)

    def last_life(self, seconds: float, ends: int) -> None:
        """Start the job, send the rest evenly and wait until all results are there."""
        self.job.start()
        came, batch = self.came, self.job.last("offsets")
        if ends or self.dice.random() < 0.7:  # the other rows come when it runs
            self.send(self.sent + 1)
            for _ in self.waits(PATIENCE, 0, 0):
                if self.came > came or self.job.last("offsets") > batch:
                    break
        begun, pace = self.job.last("commits"), (self.rows - self.sent) / seconds
        for _ in self.waits(PATIENCE + seconds, pace, self.rows):
            if self.sent == self.rows:
                break
        self.passed += self.job.last("commits") - begun
        for _ in self.waits(PATIENCE, 0, 0):
            if len(self.found) >= len(self.drawn.wanted):
                break
        batch = self.job.last("commits")
        for _ in self.waits(PATIENCE, 0, 0):  # what should not be there comes until the end of the batch
            if self.job.last("commits") > batch:
                break
        else:
            raise WrongError(f"no batch ended in {PATIENCE} s: {self.job.tail()}")
        self.job.stop()
        self.look()
        if self.passed < ends:
            raise WrongError(f"rows came across {self.passed} ends of batches, not {ends}")

    def whole(self, kills: int, ends: int = 0) -> None:
        """Run it with some kills, or across some ends of batches."""
        try:
            moments = self.dice.choices(MOMENTS, k=kills)  # first: later ones depend on how long things take
            for number, moment in enumerate(moments):
                self.life(moment, (number + 1) * self.rows // (kills + 1))
            self.last_life((ends + 2) * (self.batch + 1) if ends else self.batch * 1.5, ends)
        finally:
            self.job.kill()
            self.results.consumer.close()

    def counts(self) -> Counter[str]:
        """Return numbers of results, kills and batches."""
        found = {"results": len(self.found), "repeats": self.came - len(self.found)}
        passed = {"batches": self.job.last("commits") + 1, "ends while rows came": self.passed}
        return Counter({**found, **passed, **self.kills})

    def told(self) -> str:
        """Return what happened."""
        return _numbers(self.counts()) + (", rows expire" if self.drawn.expires else "")

    def wrong(self) -> str:
        """Return what is wrong with the results, nothing if they are those of Spark batch."""
        counts = {
            "missing": self.drawn.wanted - self.found,
            "wrong": self.found - self.drawn.wanted,
            "after their batch was committed": self.late,
        }
        told = [f"{len(some)} {what} ({min(some)[:200]})" for what, some in counts.items() if some]
        if self.came > len(self.found) and not self.kills:
            told.append(f"{self.came - len(self.found)} more than once")
        return f"of {len(self.drawn.wanted)}: {', '.join(told)}" if told else ""


def outcome(drawn: Drawn, address: str, folder: Path, batch: float, kills: int, ends: int = 0) -> tuple[str, Run]:
    """Run a query; return what is wrong, and the run."""
    run, failed = Run(drawn, address, folder, Random(drawn.seed), batch), ""
    try:
        run.whole(kills, ends)
    except WrongError as error:
        failed = str(error)
    return "; ".join(filter(None, [failed, run.wrong()])), run


def kept(spark: SparkSession, run: Run) -> int:
    """Return how many rows the state of a run's last batch has; one counts in each of its cells."""
    reader = spark.read.format("statestore").option("path", str(run.folder / "state"))
    streams = range(len(run.drawn.lines))
    return sum(reader.option("stateVarName", f"rows{rank}").load().count() for rank in streams)


def _session(home: Path) -> SparkSession:
    spark = local_session(home, "random joins", {"spark.sql.shuffle.partitions": "1"})
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> int:
    """Run; the exit code says whether all agreed."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.random_joins", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="in all")
    parser.add_argument("--boundaries", type=int, default=0, help="ends of batches, and no kill")
    parser.add_argument("--count", type=int, help="queries (5, or 1 with --boundaries)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=float, default=3, help="seconds")
    parser.add_argument("--keep", type=Path, help="a new folder for all files, which stays")
    asked = parser.parse_args()
    ends, count = asked.boundaries, asked.count or (1 if asked.boundaries else 5)
    kills = 0 if ends else asked.kills
    total, wrong = Counter[str](), 0
    with tempfile.TemporaryDirectory(prefix="random-joins-", ignore_cleanup_errors=True) as place:
        home = asked.keep or Path(place)
        home.mkdir(exist_ok=True)
        spark = _session(home)
        rows = ends * 30 if ends else None
        drawn = [draw(spark, number, rows=rows) for number in range(asked.seed, asked.seed + count)]
        spark.stop()  # it would take a part of the cores
        with broker(maven_jars.broker(), home) as address:
            for number, one in enumerate(drawn):
                share = kills * (number + 1) // count - kills * number // count
                why, run = outcome(one, address, home / f"q{one.seed}", asked.batch, share, ends)
                told = run.told()
                if ends and not why:
                    spark, all_rows = _session(home), rows * len(one.lines) if rows else 0
                    found = kept(spark, run)
                    spark.stop()
                    told += f", {found} of {all_rows} rows kept"
                    why = "" if 0 < found < all_rows / 2 else "rows do not expire"
                wrong += bool(why)
                total += run.counts()
                print(f"{one.seed}: {why or 'equal'}; {told}" + (f"\n  {one.sql}" if why else ""), flush=True)
    print(f"{count} queries, {wrong} wrong; {_numbers(total)}")
    return 1 if wrong else 0


def _numbers(counts: Counter[str]) -> str:
    moments = dict.fromkeys(MOMENTS)
    kills = sum(counts[one] for one in moments)
    others = [f"{counts[what]} {what}" for what in ("results", "repeats", "batches", "ends while rows came")]
    return f"{', '.join(others)}, {kills} kills ({', '.join(f'{counts[one]} {one}' for one in moments)})"


if __name__ == "__main__":
    sys.exit(main())
