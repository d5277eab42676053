"""Jobs on Kafka, with a real broker: three topics in, one topic out, a restart between."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from .. import maven_jars as jars
from . import broker as brokers
from . import random_joins

pytestmark = [pytest.mark.slow, pytest.mark.rare]

STREAM = """\
CREATE STREAM {name}_topic USING kafka
  OPTIONS (kafka.bootstrap.servers '{address}', subscribe '{name}', startingOffsets 'earliest');
CREATE TEMPORARY VIEW {name} AS SELECT row.* FROM
  (SELECT FROM_JSON(CAST(value AS STRING), 'id BIGINT, x DOUBLE, ts TIMESTAMP') AS row FROM {name}_topic);
"""
SINK = """\
CREATE SINK found USING kafka OPTIONS (kafka.bootstrap.servers '{address}', topic 'found', checkpointLocation 'state');
INSERT INTO found
"""
QUERY = """\
SELECT CAST(s.id AS STRING) AS key, TO_JSON(STRUCT(r.id AS r, s.id AS s, t.id AS t)) AS value
FROM r {watermark} AS r JOIN s {watermark} AS s ON ABS(r.x - s.x) < 3 AND s.ts >= r.ts
  JOIN t {watermark} AS t ON t.x BETWEEN s.x - 2 AND s.x + 1 AND t.ts >= s.ts AND t.ts < r.ts + INTERVAL 1 MINUTE
"""
ROWS = 120
#: Of a random join whose rows expire, and of when it is killed.
SEED = 3


@pytest.fixture(scope="module")
def connector() -> tuple[str, Path]:
    try:
        return jars.connector()
    except jars.NotObtainableError as error:
        pytest.skip(f"Spark's Kafka connector cannot be had here: {error}")


@pytest.fixture(scope="module")
def address(connector: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker; there is no sense in one without the connector."""
    try:
        found = jars.broker()
    except jars.NotObtainableError as error:
        pytest.skip(f"a Kafka broker cannot be had here: {error}")
    with brokers.broker(found, tmp_path_factory.mktemp("kafka")) as address:
        admin = AdminClient({"bootstrap.servers": address})
        for topic in admin.create_topics([NewTopic(name, 2, 1) for name in (*"rst", "found")]).values():
            topic.result(30)
        yield address


def rows(seed: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    seconds = sorted(dice.randrange(0, 600) for _ in range(ROWS))
    return [
        {"id": number, "x": dice.randrange(0, 50) / 2, "ts": f"2024-05-01T10:{second // 60:02}:{second % 60:02}.000Z"}
        for number, second in enumerate(seconds)
    ]


def send(address: str, topics: dict[str, list[dict[str, Any]]]) -> None:
    producer = Producer({"bootstrap.servers": address})
    for topic, values in topics.items():
        for value in values:
            producer.produce(topic, json.dumps(value))
    assert producer.flush(brokers.PATIENCE) == 0


def received(address: str) -> Counter[tuple[int, int, int]]:
    """Return all that is in the topic of results."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "the test", "enable.auto.commit": False})
    found: Counter[tuple[int, int, int]] = Counter()
    for number in consumer.list_topics("found", timeout=brokers.PATIENCE).topics["found"].partitions:
        partition = TopicPartition("found", number, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=brokers.PATIENCE)
        consumer.assign([partition])
        for record in consumer.consume(end, timeout=brokers.PATIENCE):
            assert record.error() is None
            value = json.loads(record.value())
            assert record.key() == str(value["s"]).encode()
            found[value["r"], value["s"], value["t"]] += 1
    consumer.close()
    return found


def in_batch(spark: SparkSession, topics: dict[str, list[dict[str, Any]]]) -> Counter[tuple[int, int, int]]:
    """Return what Spark batch says."""
    own = spark.newSession()
    for name, values in topics.items():
        text = own.createDataFrame([(json.dumps(value),) for value in values], "value string")
        text.selectExpr("FROM_JSON(value, 'id BIGINT, x DOUBLE, ts TIMESTAMP') AS row").select(
            "row.*"
        ).createOrReplaceTempView(name)
    parsed = [json.loads(row.value) for row in own.sql(QUERY.format(watermark="")).collect()]
    return Counter((row["r"], row["s"], row["t"]) for row in parsed)


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "trijoin_sql", "run", "job.sql", "--master", "local[2,4]", *arguments]
    return subprocess.Popen(
        [*command, "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "TZ": "UTC"},
    )


def test_three_topics_in_one_out_and_a_restart_between(
    spark: SparkSession, address: str, connector: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Results of a run that is stopped by a signal and of the next one are together those of Spark batch."""
    with capsys.disabled():
        print(f" [with Spark's Kafka {connector[0]}]", end="")
    names = ("r", "s", "t")
    watermark = "WATERMARK ts DELAY OF INTERVAL 1 HOUR"
    job = "".join(STREAM.format(name=name, address=address) for name in names)
    job += SINK.format(address=address) + QUERY.format(watermark=watermark) + ";\n"
    (tmp_path / "job.sql").write_text(job, "utf-8")
    all_rows = {name: rows(seed) for seed, name in enumerate(names)}
    first = {name: values[: ROWS // 2] for name, values in all_rows.items()}
    expected, at_first = in_batch(spark, all_rows), in_batch(spark, first)
    assert 0 < at_first.total() < expected.total()

    send(address, first)
    process = start(tmp_path, "--jars", str(connector[1]))
    while received(address).total() < at_first.total() and process.poll() is None:
        time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert (process.returncode, "SIGTERM after" in out) == (0, True), err
    assert received(address) == at_first

    send(address, {name: values[ROWS // 2 :] for name, values in all_rows.items()})
    out, err = start(tmp_path, "--jars", str(connector[1]), "--once", "--quiet", "--format", "json").communicate()
    assert err == ""
    assert json.loads(out)["queries"][0]["input_rows"] == 3 * ROWS // 2
    assert received(address) == expected


def test_in_real_time_a_killed_job_loses_no_result(
    spark: SparkSession, address: str, connector: tuple[str, Path], tmp_path: Path
) -> None:
    """A random join with ``TRIGGER REAL TIME``, killed twice: every result is there, and none that is wrong.

    ``python -m tests.kafka.random_joins`` does so with other queries, and more often.
    """
    drawn = random_joins.draw(spark, SEED)
    wrong, run = random_joins.outcome(drawn, address, tmp_path / "job", batch=1, kills=2)
    assert not wrong, f"{wrong}\n{run.told()}\n{drawn.sql}"
    assert run.kills.total() == 2


def test_in_real_time_prometheus_sees_into_the_batch(address: str, connector: tuple[str, Path], tmp_path: Path) -> None:
    """Rows, results and latencies of a batch of an hour, by the port of ``--watch``, while it runs."""
    topics = {name: f"seen_{name}" for name in ("r", "s", "out")}
    admin = AdminClient({"bootstrap.servers": address})
    for topic in admin.create_topics([NewTopic(name, 1, 1) for name in topics.values()]).values():
        topic.result(30)
    watermark = "WATERMARK ts DELAY OF INTERVAL 1 HOUR"
    job = "".join(STREAM.format(name=name, address=address).replace(f"'{name}'", f"'seen_{name}'") for name in "rs")
    job += (
        SINK.format(address=address)
        .replace("'found'", "'seen_out'")
        .replace(");\n", ") TRIGGER REAL TIME '1 hour';\n", 1)
    )
    job += f"SELECT TO_JSON(STRUCT(r.id AS r, s.id AS s)) AS value FROM r {watermark} AS r "
    job += f"JOIN s {watermark} AS s ON ABS(r.x - s.x) < 3 WITHIN 1 MINUTE;"
    (tmp_path / "job.sql").write_text(job, "utf-8")
    found: dict[str, float] = {}
    command = [sys.executable, "-m", "trijoin_sql", "run", "job.sql", "--jars", str(connector[1])]
    process = subprocess.Popen(
        [*command, "--watch", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert process.stderr is not None
        url = process.stderr.readline().partition("watch: ")[2].strip() + "metrics"
        send(address, {topics[name]: rows(seed) for seed, name in enumerate("rs")})
        until = time.monotonic() + brokers.PATIENCE
        while process.poll() is None and time.monotonic() < until:
            if all(found.get(f"input_rows_total {name}") == ROWS for name in "rs"):
                break
            time.sleep(1)
            found = scraped(url)
    finally:
        process.kill()  # a signal waits for the end of the batch
        _, err = process.communicate()
    assert found.get("input_rows_total r") == found.get("input_rows_total s") == ROWS, err
    assert found["result_latency_seconds_count"] == found["results_total"] > 0
    assert found["state_rows"] > 0
    assert "batches_total" not in found  # none has ended


def scraped(url: str) -> dict[str, float]:
    """Return what is served, summed over joins and units, by name (and stream)."""
    found: dict[str, float] = Counter()  # type: ignore[assignment]
    try:
        with urlopen(url, timeout=10) as answer:
            text = answer.read().decode()
    except OSError:  # Spark has not started, or the job has failed
        return found
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            stream = sample.labels.get("stream", "")
            found[f"{sample.name.removeprefix('trijoin_')} {stream}".strip()] += sample.value
    return found
