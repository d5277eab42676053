"""The queries of a job while they run: start all, follow, stop after the running batch."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from rich.console import Console

from ..errors import CheckpointDamagedError, JobError, hint_of
from ..running.listener import failures_told
from ..running.scaled_query import ScaledQuery, scaling_policy
from ..running.stopping import StopRequest, failure, stop
from ..spark.messages import reason, sentence
from .check import EMPTY_OR_RENAME
from .formats import CHECKPOINT
from .prepare import PreparedQuery
from .progress import Board, Tally, input_names
from .sinks import memory_rows
from .sinks import start as start_into
from .statements import CreateStream, Job

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from .watch import Watch

#: Seconds between two checks of the queries.
POLL = 0.2


class QueryFailedError(Exception):
    """A query of a job failed; the message says which one and why."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job did.

    Parameters
    ----------
    tallies
        For each query.
    ended
        ``done`` if all queries ended by themselves, else what stopped them.
    seconds
        How long they ran.
    rows
        For each memory sink its first rows, as JSON objects.
    """

    tallies: tuple[Tally, ...]
    ended: str
    seconds: float
    rows: dict[str, list[str]] = field(default_factory=dict)


def run_queries(
    job: Job,
    prepared: tuple[PreparedQuery, ...],
    console: Console,
    request: StopRequest,
    *,
    once: bool = False,
    lines: bool = False,
    live: bool = False,
    watch: Watch | None = None,
) -> Outcome:
    """Run queries until they end, one fails or a stop is requested.

    With ``once`` they read the available rows and end. With ``lines`` console sinks write a JSON object for each row.
    With ``live`` progress is redrawn in place. A ``watch`` shows the queries.

    Raises
    ------
    JobError
        Spark refused to start a query.
    QueryFailedError
        A query failed while it ran; the others were stopped.
    """
    tallies = [
        Tally(
            query.sink.name.text,
            appends=query.sink.output_mode == "append",
            late_sink=query.late.name.text if query.late is not None else "",
        )
        for query in prepared
    ]
    if watch is not None:
        watch.status = lambda: _status(request)
        for tally, one in zip(tallies, prepared, strict=True):
            watch.add(tally, one.endless)
    names = input_names(job.streams)
    spark = prepared[0].frame.sparkSession
    begun = time.monotonic()
    policy = scaling_policy(spark)
    running: list[ScaledQuery] = []
    with failures_told(), Board(console, tallies, live=live) as board:
        try:
            for one in prepared:
                start = partial(_start, job, one, request, once=once, lines=lines)
                # Without its own checkpoint, a query would begin again from its first row.
                resumes = one.sink.options.find(CHECKPOINT) is not None
                running.append(ScaledQuery(spark, start, policy if resumes else None))
            board.status = lambda: _status(request)
            while not request.count and any(query.active for query in running):
                if any(failure(query.query) is not None for query in running):
                    break
                _look(running, tallies, names, board)
                for query, tally in zip(running, tallies, strict=True):
                    if query.look():
                        board.say(f"{tally.sink}: started again with other units, for the load; {query}")
                time.sleep(POLL)
        finally:
            while not all(query.settle() for query in running) and request.count < 2:
                time.sleep(POLL)
            stop(spark, [query.query for query in running], request)
        _look(running, tallies, names, board)
    _raise_failure(job, prepared, running)
    for tally in tallies:
        for said in tally.silent():
            board.warn(f"{tally.sink}: {said}")
    sinks = [sink for query in prepared for sink in (query.sink, query.late) if sink is not None]
    memory = [sink for sink in sinks if sink.format.text.lower() == "memory"]
    return Outcome(
        tuple(tallies),
        request.by or "done",
        time.monotonic() - begun,
        {sink.name.text: memory_rows(spark, sink) for sink in memory},
    )


def _status(request: StopRequest) -> str:
    match request.count:
        case 0:
            return "running; Ctrl-C stops after the running batch"
        case 1:
            return f"{request.by}: stopping after the running batch; Ctrl-C again stops at once"
    return f"{request.by}: stopping at once; the next run repeats what the running batch has begun"


def _start(job: Job, query: PreparedQuery, request: StopRequest, *, once: bool, lines: bool) -> StreamingQuery:
    try:
        return start_into(query.frame, query.sink, job.script, request, once=once, lines=lines, late=query.late)
    except (PySparkException, Py4JError) as error:
        detail = f"Spark does not start this query: {sentence(error)}"
    except CheckpointDamagedError as error:
        detail = error.message
    raise job.script.error(query.insert.sink.start, detail)


def _look(running: list[ScaledQuery], tallies: list[Tally], names: dict[str, str], board: Board) -> None:
    for query, tally in zip(running, tallies, strict=False):
        for said in tally.look(query.query, names):
            board.warn(f"{tally.sink}: {said}")
    board.refresh()


def _raise_failure(job: Job, prepared: tuple[PreparedQuery, ...], running: list[ScaledQuery]) -> None:
    for query, started in zip(prepared, running, strict=True):
        error = failure(started.query)
        if error is None:
            continue
        why = with_socket(reason(error), job.streams)
        if re.search(r"\[TRIJOIN_(CHECKPOINT_MISMATCH|CHECKPOINT_VERSION|SINK_MISMATCH)\]", why):
            raise _mismatch(job, query, why)
        line, _ = job.script.place(query.insert.sink.start)
        hint = hint_of(why, str(error))
        raise QueryFailedError(f"{job.script.path}:{line}: the query into {query.sink.name} failed: {why}{hint}")


def _mismatch(job: Job, query: PreparedQuery, why: str) -> JobError:
    if "[TRIJOIN_SINK_MISMATCH]" in why:  # in an object store, say: `check` has looked at local folders
        word = query.sink.options.find("path") or query.sink.name
        return job.script.error(word.start, why.partition("] ")[2], EMPTY_OR_RENAME)
    word = query.sink.options.find(CHECKPOINT) or query.sink.name
    another = "[TRIJOIN_CHECKPOINT_VERSION]" in why
    hint = f"use a new checkpoint location, or {'that version' if another else 'the query as it was'}"
    return job.script.error(word.start, why.partition("] ")[2], hint)


def with_socket(why: str, streams: Iterable[CreateStream]) -> str:
    """Return why a query failed, with the address of the socket if one failed: Java names neither host nor port."""
    places = [
        (stream.options.text("host") or "", stream.options.text("port"))
        for stream in streams
        if stream.format.text.lower() == "socket"
    ]
    if any(why == host for host, _ in places):
        return f"there is no host named {why}"
    if places and re.match(r"Connection (?:refused|timed out|reset)|No route to host|Network is unreachable", why):
        return f"{why}: {', '.join(sorted({f'{host}:{port}' for host, port in places}))} (a server must listen first)"
    return why
