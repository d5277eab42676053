"""Runs a workload as streams, in a Spark session: under our schemes, and as Spark's own cascade."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from trijoin_sql.errors import TriJoinError

from .outcome import Outcome, StoppedError
from .processes import Cpu, Peak, cpu_of, python_workers
from .runners import trijoin_runner
from .workloads import SCHEMA, Workload, columns, query, watermark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Between a scheme and a commit in the name of an engine: that scheme in that commit's version of ours.
AT = " at "


class Session(Protocol):
    """A Spark session that runs queries."""

    @property
    def jvm(self) -> int:
        """The process id of its JVM."""

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run a query; see `runners.trijoin_runner.run`."""

    def cpu(self) -> Cpu | None:
        """Return the processor time that it has taken so far, None where the system does not tell."""

    def compiled(self) -> float:
        """Return the milliseconds of compilation in its JVM, over all threads."""

    def close(self) -> None:
        """End it."""


class Here:
    """The benchmark's own session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.jvm = trijoin_runner.jvm(spark)
        self.compiled = trijoin_runner.compiling(spark)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return trijoin_runner.run(self.spark, request)

    def cpu(self) -> Cpu | None:
        return cpu_of(os.getpid(), self.jvm)

    def close(self) -> None:
        from py4j.protocol import Py4JError

        with suppress(Py4JError):  # SIGTERM has cut a call off; the JVM ends with us
            self.spark.stop()  # removes the folders of Spark's own


def request(
    workload: Workload, engine: str, rows: int, checkpoint: Path, sources: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return what a session is asked: a workload's query to the end of its streams.

    Parameters
    ----------
    engine
        A scheme of ours, with a commit if need be, or ``spark``.
    sources
        Each stream's ``format``, ``options``, ``schema`` and ``columns``, where they are not the workload's own.
    """
    plain = engine == "spark"
    streams = {
        stream: {"schema": SCHEMA, "columns": columns(workload, rows), "watermark": watermark(workload), **source}
        for stream, source in sources.items()
    }
    return {
        "streams": streams,
        "sql": query(workload, None if plain else engine.partition(AT)[0]),
        "plain": plain,
        "mode": workload.mode,
        "trigger": {"availableNow": True},
        "checkpoint": str(checkpoint),
        "batches": None,
        "seconds": None,
    }


def run_stream(
    session: Session, workload: Workload, folder: Path, engine: str, rows: int, tables: float = 0
) -> Outcome:
    """Run a workload as streams with this many rows each, one file a micro-batch, as fast as possible.

    Or as one query over tables, which may take that many seconds.
    """
    from pyspark.errors import PySparkException

    checkpoint = Path(tempfile.mkdtemp(prefix="trijoin-bench-"))
    sources = {
        stream: {"format": "parquet", "options": {"path": str(folder / stream), "maxFilesPerTrigger": 1}}
        for stream in workload.streams
    }
    try:
        before, jvm = session.cpu(), session.jvm
        with Peak(lambda: python_workers(jvm)) as peak:
            answer = session.ask({**request(workload, engine, rows, checkpoint, sources), "tables": tables})
        after = session.cpu()
    except (PySparkException, TriJoinError) as error:
        return Outcome(engine, problem=str(error).partition("\n")[0][:160])
    except StoppedError as error:
        if error.limit is None:
            return Outcome(engine, problem=str(error)[:160])
        return Outcome(engine, error.limit, sum(workload.sizes(rows)), exceeded=True)
    finally:
        shutil.rmtree(checkpoint, ignore_errors=True)
    reports = answer["reports"]
    counted = reports if tables else reports[1:]
    took = [report["took"]["triggerExecution"] / 1000 for report in counted]
    return Outcome(
        engine,
        sum(took),
        sum(report["rows"] for report in counted),
        answer["results"],
        tuple(took),
        answer["counters"],
        memory=peak.most if answer["counters"] else None,
        exceeded=bool(tables) and answer["results"] is None,
        cpu=after - before if before and after else None,
        read=sum(report["rows"] for report in reports),
        slots=tuple(answer["slots"]),
    )


def run_cold(session: Session, workload: Workload, folder: Path, engine: str, rows: int) -> Outcome:
    """Run a workload in a session that has not started, and end it: from its start on, all counts."""
    began = time.monotonic()
    try:
        outcome = run_stream(session, workload, folder, engine, rows)
        if outcome.problem or outcome.exceeded:
            return outcome
        tuples = sum(workload.sizes(rows))
        return replace(outcome, seconds=time.monotonic() - began, tuples=tuples, cpu=session.cpu())
    finally:
        session.close()
