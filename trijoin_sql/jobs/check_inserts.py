"""Mistakes in an INSERT: the sinks that it names, and whether these can hold its rows."""

from __future__ import annotations

from collections.abc import Sequence

from ..rewriter.sql.dialect import tokenize
from ..rewriter.sql.similar import did_you_mean
from ..rewriter.sql.spark_types import UNKNOWN
from ..rewriter.sql.statement import read_histories
from .formats import FILES, FROM_ROW_BY_ROW, SINKS, SOURCES, TABLES, WITH_LATE_ROWS, find_format
from .job_text import Script
from .statements import CreateSink, InsertInto, Job

#: Types that a CSV file cannot express.
_NOT_IN_CSV = ("array", "map", "struct", "binary", "variant", "interval")


def check_insert(job: Job, insert: InsertInto) -> None:
    """Check that the sink exists and no other INSERT writes into it.

    Raises
    ------
    JobError
        At the first mistake.
    """
    name = insert.sink.text
    if job.sink(name) is None:
        sinks = [sink.name.text for sink in job.sinks]
        if any(stream.name.text.lower() == name.lower() for stream in job.streams):
            job.script.fail(insert.sink.start, f"{name} is a stream: rows are inserted into a sink", None)
        hint = did_you_mean(name, sinks) if sinks else "declare it: CREATE SINK name USING format ..."
        job.script.fail(insert.sink.start, f"there is no sink named {name}", hint)
    check_late(job, insert)
    check_real_time(job, insert)
    first = next(other for other in job.inserts if other.sink.text.lower() == name.lower())
    if first is not insert:
        line, _ = job.script.place(first.sink.start)
        hint = "declare a second sink, or put both queries into one with UNION ALL"
        job.script.fail(insert.sink.start, f"the sink {name} gets rows from line {line} already", hint)


def check_late(job: Job, insert: InsertInto) -> None:
    """Check the sink that an INSERT names for late rows, and that its own sink can be written beside one.

    Raises
    ------
    JobError
        At the first mistake.
    """
    name, results = insert.late, job.sink(insert.sink.text)
    if name is None or results is None:
        return
    fail, late = job.script.fail, job.sink(name.text)
    if late is None:
        if any(stream.name.text.lower() == name.text.lower() for stream in job.streams):
            fail(name.start, f"{name} is a stream: late rows go into a sink")
        fail(name.start, f"there is no sink named {name}", f"declare it: CREATE SINK {name} USING format ...")
    if late is results:
        fail(name.start, f"{name} gets the results of this query", "declare a sink of their own for late rows")
    words = [word for one in job.inserts for word in (one.sink, one.late) if word is not None and word is not name]
    taken = next((word for word in words if word.text.lower() == name.text.lower()), None)
    if taken is not None:
        line, _ = job.script.place(taken.start)
        fail(name.start, f"the sink {name} gets rows from line {line} already", "declare another sink for late rows")
    if late.output_mode != "append":
        fail(name.start, f"late rows are appended, and {name} has MODE {late.mode}", "leave its MODE out")
    if late.trigger is not None:
        hint = f"leave its TRIGGER out; that of {results.name} counts"
        fail(name.start, f"{name} has a TRIGGER, and its rows come with the micro-batches of {results.name}", hint)
    for sink, at, what in ((results, insert.sink, "results beside late rows"), (late, name, "late rows")):
        if find_format(SINKS, sink.format.text) not in WITH_LATE_ROWS:
            hint = f"formats that do: {', '.join(WITH_LATE_ROWS)}"
            why = f"a sink of the format {sink.format} takes no {what}: it would not know a repeated batch"
            fail(at.start, why, hint)


def check_real_time(job: Job, insert: InsertInto) -> None:
    """Check that an INSERT whose sink has TRIGGER REAL TIME reads what gives rows one by one.

    Raises
    ------
    JobError
        It does not.
    """
    sink = job.sink(insert.sink.text)
    if sink is None or not sink.in_real_time:
        return
    if insert.late is not None:
        job.script.fail(insert.late.start, "no late rows are kept in real time", "leave LATE ROWS INTO out")
    for one in read_histories(insert.query.text):
        why = f"the rows of a table come in slices, and the trigger of {sink.name} is REAL TIME"
        job.script.fail(insert.query.start + one.at, why, f"leave HISTORY out, or give {sink.name} another TRIGGER")
    words = {token.text.lower() for token in tokenize(insert.query.text)}
    for stream in job.streams:
        if stream.name.text.lower() in words and find_format(SOURCES, stream.format.text) not in FROM_ROW_BY_ROW:
            hint = f"read it from {' or '.join(FROM_ROW_BY_ROW)}, or give {sink.name} another TRIGGER"
            why = f"a {stream.format} stream gives no rows one by one, and the trigger of {sink.name} is REAL TIME"
            job.script.fail(stream.format.start, why, hint)


def check_output(script: Script, columns: Sequence[tuple[str, str]], insert: InsertInto, sink: CreateSink) -> None:
    """Check that the sink can hold the query's columns: names, and types as Spark writes them, or `UNKNOWN`.

    Raises
    ------
    JobError
        It cannot.
    """
    at, name = insert.query.start, find_format(SINKS, sink.format.text)
    names = [column.lower() for column, _ in columns]
    twice = next((column for number, (column, _) in enumerate(columns) if column.lower() in names[:number]), None)
    if twice is not None and name in (*FILES, *TABLES):
        script.fail(at, f"two columns are named {twice}, which {name} cannot hold", "give one another name with AS")
    types = dict(columns)
    if name == "text" and [kind for _, kind in columns] not in (["string"], [UNKNOWN]):
        script.fail(at, f"a text file holds one STRING column, not {_listed(types)}", "use CONCAT_WS, or USING csv")
    if name == "csv":
        wrong = {column: kind for column, kind in types.items() if kind.startswith(_NOT_IN_CSV)}
        if wrong:
            script.fail(at, f"a CSV file cannot hold {_listed(wrong)}", "use TO_JSON(column), or USING json")
    if name == "kafka":
        value = {column.lower(): kind for column, kind in types.items()}.get("value")
        if value not in ("string", "binary", UNKNOWN):
            found = "there is none" if value is None else f"it is {value.upper()}"
            hint = "write SELECT TO_JSON(STRUCT(a, b)) AS value, CAST(a AS STRING) AS key"
            script.fail(at, f"Kafka takes a STRING or BINARY column named value; {found}", hint)
        if sink.options.find("topic") is None and "topic" not in names:
            script.fail(sink.format.start, "which topic? Neither the option topic nor a column topic is given")


def _listed(types: dict[str, str]) -> str:
    return ", ".join(f"{column} {kind.upper()}" for column, kind in types.items())
