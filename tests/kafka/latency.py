"""Latency, Kafka to Kafka, with broker, sender and reader on one machine: ``python -m tests.kafka.latency``.

A row carries the time at which it was sent, and a result the latest one of its rows; the reader compares that with its
own clock. So what is measured is from the sending of a result's last row to the result's arrival at the reader, broker
included. Rows of three streams are sent evenly; a result has one row of each whose values lie close together.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)
from pyspark.sql.streaming.query import StreamingQuery

import trijoin_sql

from .. import maven_jars
from .broker import broker

STREAMS = ("r", "s", "t")

#: By name: the conditions between r and s, and between t and one or both of them.
SHAPES = {
    "chain": "ABS(r.x - s.x) <= {d} JOIN t ON ABS(s.x - t.x) <= {d}",
    "cycle": "ABS(r.x - s.x) <= {d} JOIN t ON ABS(s.x - t.x) <= {d} AND ABS(r.x - t.x) <= {d}",
}
SCHEMA = "id BIGINT, x BIGINT, sent BIGINT"

#: The domain of values, and how long rows meet (seconds).
DOMAIN, WITHIN = 1_000_000, 10


class Sender(threading.Thread):
    """Sends rows to three topics at a rate, over all of them, until it is stopped, and first some without a partner."""

    def __init__(self, address: str, rate: float, kept: int) -> None:
        super().__init__(daemon=True)
        self.address, self.rate, self.kept = address, rate, kept
        self.done = threading.Event()
        self.sent = 0

    def fill(self) -> None:
        """Send the rows that are kept and meet none."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 50})
        for number in range(self.kept):
            row = {"id": -number, "x": 2 * DOMAIN + number * DOMAIN, "sent": time.time_ns() // 1000}
            producer.produce(STREAMS[number % 3], json.dumps(row))
            producer.poll(0)
            if number % 20_000 == 0:
                producer.flush(30)
        producer.flush(60)

    def run(self) -> None:
        dice, begun = Random(1), time.monotonic()
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 1, "acks": 1})
        while not self.done.is_set():
            due = int((time.monotonic() - begun) * self.rate)
            while self.sent < due:
                now = time.time_ns() // 1000
                row = {"id": self.sent, "x": dice.randrange(DOMAIN), "sent": now}
                producer.produce(STREAMS[self.sent % 3], json.dumps(row))
                self.sent += 1
            producer.poll(0)
            time.sleep(0.001)
        producer.flush(10)


class Reader(threading.Thread):
    """Reads results, and keeps when each arrived and how late that was (milliseconds)."""

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.consumer = Consumer({"bootstrap.servers": address, "group.id": topic, "enable.auto.commit": False})
        self.consumer.assign([TopicPartition(topic, 0, 0)])
        self.done = threading.Event()
        self.found: list[tuple[float, float]] = []

    def run(self) -> None:
        while not self.done.is_set():
            record = self.consumer.poll(0.05)
            if record is not None and record.error() is None:
                now = time.time_ns() // 1000
                if record.value() is not None:
                    self.found.append((time.monotonic(), (now - int(record.value())) / 1000))
        self.consumer.close()


def streams(spark: SparkSession, address: str) -> dict[str, DataFrame]:
    """Return the three streams."""
    found = {}
    for name in STREAMS:
        read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", name)
        read = read.option("startingOffsets", "latest")
        row = F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")
        found[name] = (
            read.load()
            .select(row)
            .selectExpr("row.*", "TIMESTAMP_MICROS(row.sent) AS ts")
            .withWatermark("ts", "1 second")
        )
    return found


def query(spark: SparkSession, address: str, engine: str, shape: str, cells: int, rate: float, kept: int) -> DataFrame:
    """Return what runs: the join, or Spark's own stateful operator over the same streams."""
    sources = streams(spark, address)
    if engine == "dropDuplicates":
        rows = sources["r"].unionAll(sources["s"]).unionAll(sources["t"])
        return rows.dropDuplicates(["id", "ts"]).select(F.col("sent").cast("string").alias("value"))
    for name, frame in sources.items():
        frame.createOrReplaceTempView(name)
    # About two partners in each of the others for a row.
    width = max(1, int(DOMAIN * 2 / (2 * max(rate / 3 * 2 * WITHIN, 1))))
    hint = f"/*+ SCHEME('matrix'), UNITS({cells}) */"
    text = (
        f"SELECT {hint} CAST(GREATEST(r.sent, s.sent, t.sent) AS STRING) AS value FROM r JOIN s ON "
        f"{SHAPES[shape].format(d=width)} WITHIN {WITHIN if not kept else 3600} SECONDS"
    )
    return trijoin_sql.TriJoinSession.create(spark).sql(text)


def cascade(spark: SparkSession, address: str, rate: float, middle: str, shape: str) -> tuple[DataFrame, DataFrame]:
    """Return two joins of two, the first of which writes what the second reads into a topic."""
    width = max(1, int(DOMAIN * 2 / (2 * max(rate / 3 * 2 * WITHIN, 1))))
    tj = trijoin_sql.TriJoinSession.create(spark)
    for name, frame in streams(spark, address).items():
        frame.createOrReplaceTempView(name)
    first = tj.sql(
        "SELECT TO_JSON(STRUCT(r.x AS rx, s.x AS x, GREATEST(r.sent, s.sent) AS sent)) AS value "
        f"FROM r JOIN s ON ABS(r.x - s.x) <= {width} WITHIN {WITHIN} SECONDS"
    )
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address).option("subscribe", middle)
    row = F.from_json(F.col("value").cast("string"), "rx BIGINT, x BIGINT, sent BIGINT").alias("row")
    found = read.load().select(row).selectExpr("row.*", "TIMESTAMP_MICROS(row.sent) AS ts")
    found.withWatermark("ts", "1 second").createOrReplaceTempView("rs")
    on = f"ABS(rs.x - t.x) <= {width}" + (f" AND ABS(rs.rx - t.x) <= {width}" if shape == "cycle" else "")
    second = tj.sql(
        f"SELECT CAST(GREATEST(rs.sent, t.sent) AS STRING) AS value FROM rs JOIN t ON {on} WITHIN {WITHIN} SECONDS"
    )
    return first, second


@contextmanager
def running(address: str, frame: DataFrame, topic: str, trigger: dict[str, str], mode: str) -> Iterator[StreamingQuery]:
    """Run a query for a block."""
    with tempfile.TemporaryDirectory(prefix="real-time-", ignore_cleanup_errors=True) as folder:
        writer = frame.writeStream.format("kafka").option("kafka.bootstrap.servers", address).option("topic", topic)
        writer = writer.option("kafka.linger.ms", "0").option("checkpointLocation", folder).outputMode(mode)
        started = writer.trigger(**trigger).start()
        try:
            yield started
        finally:
            started.stop()


def quantiles(found: list[float]) -> dict[str, float]:
    """Return the median, the 95th and 99th percentile and the most of some latencies."""
    if not found:
        return {}
    ordered = sorted(found)
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    return {
        **{name: ordered[min(int(len(ordered) * share), len(ordered) - 1)] for name, share in at.items()},
        "max": ordered[-1],
    }


def new_topic(address: str, name: str) -> str:
    """Make a topic of one partition."""
    topic = f"{name}-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        made.result(30)
    return topic


def measure(spark: SparkSession, address: str, engine: str, shape: str, rate: float, asked: Any) -> dict[str, Any]:
    """Run an engine at a rate; latencies count after a third of the time."""
    seconds, cells = asked.seconds, asked.cells
    micro = engine == "micro-batch"
    trigger = {"processingTime": "0 seconds"} if micro else {"realTime": asked.batch}
    mode = "append" if micro else "update"
    sender = Sender(address, rate, asked.kept)
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(cells))
    with ExitStack() as stack:
        topic = new_topic(address, "out")
        reader = Reader(address, topic)
        reader.start()
        if engine == "cascade":
            middle = new_topic(address, "middle")
            first, frame = cascade(spark, address, rate, middle, shape)
            stack.enter_context(running(address, first, middle, trigger, mode))
        else:
            frame = query(spark, address, engine, shape, cells, rate, asked.kept)
        started = stack.enter_context(running(address, frame, topic, trigger, mode))
        time.sleep(5)
        if asked.kept:
            sender.fill()
            tj = trijoin_sql.TriJoinSession.create(spark)
            while tj.metrics(started).total()["state_rows"] < asked.kept and started.isActive:
                time.sleep(1)
        sender.start()
        begun = time.monotonic()
        time.sleep(seconds)
        sender.done.set()
        sender.join()
        time.sleep(2)
        own = trijoin_sql.TriJoinSession.create(spark).metrics(started).latency() if engine == "real-time" else {}
        failed = started.exception()
        reader.done.set()
        reader.join()
    spark.conf.set("spark.sql.shuffle.partitions", before)
    counted = [late for at, late in reader.found if seconds / 3 <= at - begun <= seconds]
    gaps = [at for at, _ in reader.found if at - begun >= seconds / 3]
    pause = max((b - a for a, b in pairwise(gaps)), default=0.0)
    about = {"engine": engine, "shape": shape, "rate": rate, "cells": cells, "batch": asked.batch, "kept": asked.kept}
    found = {"sent": sender.sent, "results": len(reader.found), **quantiles(counted), "pause": pause * 1000, "own": own}
    return {**about, "failed": str(failed or ""), **found}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.latency", description=__doc__)
    parser.add_argument("--rates", type=float, nargs="+", default=[10, 1000, 5000, 10000], help="rows/s of all streams")
    parser.add_argument(
        "--engines",
        nargs="+",
        default=["real-time", "micro-batch", "dropDuplicates"],
        help="those, and cascade (two joins of two in real time, a topic between)",
    )
    parser.add_argument("--shapes", nargs="+", default=["chain"], choices=[*SHAPES])
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--batch", default="5 minutes", help="of realTime; shorter than a run, boundaries count")
    parser.add_argument("--cells", type=int, default=1)
    parser.add_argument("--kept", type=int, default=0, help="rows that are there before, and kept")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--master", default="local[16]")
    parser.add_argument("--conf", nargs="*", default=[], metavar="KEY=VALUE", help="settings of Spark")
    parser.add_argument("--warm-up", type=float, default=0, help="seconds of a run before, which does not count")
    asked = parser.parse_args()
    jars = ",".join(map(str, sorted(maven_jars.connector()[1].glob("*.jar"))))
    builder = SparkSession.builder.master(asked.master).config("spark.jars", jars).config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.session.timeZone", "UTC").config("spark.driver.memory", "4g")
    for setting in asked.conf:
        builder = builder.config(*setting.split("=", 1))
    with tempfile.TemporaryDirectory(prefix="broker-") as folder, broker(maven_jars.broker(), Path(folder)) as address:
        admin = AdminClient({"bootstrap.servers": address})
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in STREAMS]).values():
            made.result(30)
        spark = trijoin_sql.configure(builder).getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        if asked.warm_up:
            warm = argparse.Namespace(**{**vars(asked), "seconds": asked.warm_up, "kept": 0})
            for engine in asked.engines:
                measure(spark, address, engine, asked.shapes[0], 500, warm)
        for shape in asked.shapes:
            for rate in asked.rates:
                for engine in asked.engines:
                    found = [measure(spark, address, engine, shape, rate, asked) for _ in range(asked.runs)]
                    middle = found[0] | {
                        name: round(statistics.median(one.get(name, float("nan")) for one in found), 1)
                        for name in ("p50", "p95", "p99", "max", "pause", "results")
                    }
                    print(json.dumps(middle), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
