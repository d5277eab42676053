"""Mistakes that show without Spark: names, formats, options, paths, modes, functions."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..rewriter.cautions import NO_GROUPS
from ..rewriter.plan.parts import Column
from ..rewriter.sql.catalog import RATE_OPTION, DdlCatalog, TableInfo, positive
from ..rewriter.sql.clauses import Options, Word, close
from ..rewriter.sql.dialect import tokenize
from ..rewriter.sql.intervals import length_microseconds
from ..rewriter.sql.spark_types import TYPES, UNKNOWN
from .columns import check_columns, check_groups
from .formats import (
    BOOLEANS,
    CHECKPOINT,
    COUNTS,
    FILES,
    FOLDERS,
    OTHER,
    PYTHON,
    SINKS,
    SOURCES,
    TABLES,
    WITH_LATE_ROWS,
    Format,
    find_format,
    fixed_columns,
)
from .job_text import Script, did_you_mean
from .paths import local_path, why_of_another, why_unreadable, why_unwritable
from .planning import NO_STREAM, Refusals, reads_nothing
from .setting_names import assignment, hint_if_unknown
from .statements import CreateSink, CreateStream, InsertInto, Job, SparkStatement

#: Types that a CSV file cannot express.
_NOT_IN_CSV = ("array", "map", "struct", "binary", "variant", "interval")

#: What to do about a file sink's folder with the results of another checkpoint.
EMPTY_OR_RENAME = "empty or rename that folder, or go on with the checkpoint that belongs to it"


def check_job(job: Job, settings: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """Check a job as far as possible without Spark.

    Parameters
    ----------
    job
        The job.
    settings
        Those that are given beside the file.

    Returns
    -------
    list of str
        Warnings: unused declarations.

    Raises
    ------
    JobError
        At the first mistake.
    """
    check_statements(job)
    check_places(job)
    _check_plans(job, settings)
    if not job.inserts:
        end = len(job.script.text.rstrip())
        job.script.fail(end, "the job has no INSERT INTO: nothing would run", "write INSERT INTO sink SELECT ...;")
    return _unused(job)


def check_places(job: Job) -> None:
    """Check the folders that a job reads and writes, and import its functions.

    Raises
    ------
    JobError
        At the first mistake.
    """
    for stream in job.streams:
        path = stream.options.find("path")
        if path is not None and find_format(SOURCES, stream.format.text) in FOLDERS:
            _refuse(job.script, path, why_unreadable(path.text))
        _check_class(job.script, stream)
    for sink in job.sinks:
        _check_target(job.script, sink, late=job.is_late(sink))


def check_statements(job: Job) -> None:
    """Check only the text of a job file: no other file, folder or module is read.

    Raises
    ------
    JobError
        At the first mistake.
    """
    _check_names(job)
    for statement in job.statements:
        match statement:
            case CreateStream():
                _check_stream(job.script, statement)
            case CreateSink():
                _check_sink(job.script, statement)
            case InsertInto():
                _check_insert(job, statement)
            case SparkStatement():
                check_setting(job.script, statement.sql.text, statement.sql.start)
    _check_sharing(job)
    tables = ((stream.name.text, TableInfo(tuple(_declared(stream)), True)) for stream in job.streams)
    catalog = DdlCatalog(tuple(tables))
    for statement in job.statements:
        match statement:
            case InsertInto(sink=name, query=sql):
                check_columns(job.script, sql.text, sql.start, catalog)
                sink = job.sink(name.text)
                if sink is not None and sink.output_mode == "append":
                    check_groups(job.script, sql.text, sql.start, catalog)
            case SparkStatement(sql=sql) if re.match(r"CREATE\b.*?\bVIEW\b", sql.text, re.IGNORECASE):
                check_columns(job.script, sql.text, sql.start, catalog)


def _check_plans(job: Job, settings: Mapping[str, str]) -> None:
    """Find what the rewriter refuses, whatever Spark knows."""
    if "spark.sql.casesensitive" in " ".join([job.script.text, *settings]).lower():
        return
    tables = []
    for stream in job.streams:
        mark = stream.watermark
        times = () if mark is None else ((mark.column.text, length_microseconds(mark.delay.text)),)
        tables.append((stream.name.text, TableInfo(tuple(_declared(stream)), True, times=times)))
    refusals = Refusals(job.script, DdlCatalog(tuple(tables)), dict(settings))
    for statement in job.statements:
        match statement:
            case SparkStatement(sql=sql):
                refusals.look(sql)
            case InsertInto(sink=name, query=sql):
                sink = job.sink(name.text)
                assert sink is not None  # `check_statements` has looked
                if reads_nothing(sql.text):
                    job.script.fail(sql.start, *NO_STREAM)
                refusals.look(sql)
                columns = refusals.output(sql)
                if columns is not None:
                    check_output(job.script, columns, statement, sink)
                if sink.mode is not None and sink.output_mode == "complete" and refusals.is_plain(sql):
                    job.script.fail(sink.mode.start, NO_GROUPS.reason, NO_GROUPS.hint)


def _declared(stream: CreateStream) -> list[Column]:
    """Return a stream's columns; none if only the files have them."""
    declared = [Column(column.name.text, column.kind) for column in stream.columns]
    return declared or [Column(*column) for column in fixed_columns(stream.format.text, stream.options)]


def load_function(script: Script, word: Word) -> Callable[[Any, int], None]:
    """Import the function that a foreachBatch sink names as ``module:name``.

    Raises
    ------
    JobError
        The module does not import, or has no such function.
    """
    function = _load(script, word, "function")
    if not callable(function):
        script.fail(word.start, f"{word.text} is no function: a function of a DataFrame and a batch's number is needed")
    if not _takes_two(function):
        script.fail(word.start, f"{word.text} does not take two arguments, a DataFrame and a batch's number")
    called: Callable[[Any, int], None] = function
    return called


def load_source(script: Script, word: Word) -> Any:
    """Import the data source (a class) that ``USING python`` names as ``module:Class``.

    Raises
    ------
    JobError
        The module does not import, or has no such class.
    """
    from pyspark.sql.datasource import DataSource

    source = _load(script, word, "class")
    if not (isinstance(source, type) and issubclass(source, DataSource)):
        script.fail(
            word.start, f"{word.text} is no data source: a subclass of pyspark.sql.datasource.DataSource is needed"
        )
    return source


def _load(script: Script, word: Word, kind: str) -> Any:
    """Import what a user names as ``module:name``.

    Modules are looked for beside the job file and in the current folder, then where Python looks.
    """
    module_name, colon, name = word.text.partition(":")
    if not colon or not module_name or not name.isidentifier():
        script.fail(word.start, f"{word.text!r} is not of the form 'module:name'")
    for folder in (str(Path.cwd()), str(Path(script.path).absolute().parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        hint = "modules are looked for beside the job file, in the current folder, and where Python looks"
        script.fail(word.start, f"there is no module named {error.name}", hint)
    except Exception as error:
        script.fail(word.start, f"{module_name} does not import: {type(error).__name__}: {error}")
    function = getattr(module, name, None)
    if function is None:
        names = [known for known, value in vars(module).items() if callable(value) and not known.startswith("_")]
        script.fail(word.start, f"{module_name} has no {kind} {name}", did_you_mean(name, names))
    return function


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        signature(function).bind(None, 0)
    except TypeError:
        return False
    except ValueError:  # a C function without a signature
        return True
    return True


def _check_names(job: Job) -> None:
    known: dict[str, Word] = {}
    for name in (*(stream.name for stream in job.streams), *(sink.name for sink in job.sinks)):
        first = known.setdefault(name.text.lower(), name)
        if first is not name:
            first, name = sorted((first, name), key=lambda word: word.start)
            line, _ = job.script.place(first.start)
            job.script.fail(name.start, f"there is already something named {name.text}, on line {line}")


def check_setting(script: Script, sql: str, start: int) -> None:
    """Check that the setting of ours which a statement sets exists.

    Raises
    ------
    JobError
        There is no such setting.
    """
    found = assignment(sql)
    if found is not None and (hint := hint_if_unknown(found.key)) is not None:
        script.fail(start + found.start, f"there is no setting {found.key}", hint)


def _check_stream(script: Script, stream: CreateStream) -> None:
    name, source = _format(script, stream.format, SOURCES, SINKS, "source", "sink")
    _check_options(script, stream.format, stream.options, source, ours=(RATE_OPTION,))
    if stream.columns and source.columns is not None:
        names = ", ".join(column for column, _ in source.columns)
        hint = "convert them in a view: CREATE TEMPORARY VIEW v AS SELECT CAST(value AS STRING) ..."
        script.fail(stream.columns[0].name.start, f"the columns of {name} are always the same: {names}", hint)
    if source.declares and not stream.columns:
        hint = f"write CREATE STREAM {stream.name.text} (a BIGINT, ts TIMESTAMP) USING {name}"
        script.fail(stream.name.start, f"a stream of {name} files needs its columns", hint)
    for column in stream.columns:
        first = re.match(r"\w+", column.type.text)
        if first is None or first[0].lower() not in TYPES:
            script.fail(
                column.type.start, f"there is no type {column.type.text}", did_you_mean(column.type.text, TYPES)
            )
    _check_watermark(script, stream)


def _check_watermark(script: Script, stream: CreateStream) -> None:
    columns = _declared(stream)
    if stream.watermark is None or not columns:
        return
    word = stream.watermark.column
    found = next((column for column in columns if column.name.lower() == word.text.lower()), None)
    if found is None:
        names = [column.name for column in columns]
        script.fail(word.start, f"{stream.name} has no column {word.text}", did_you_mean(word.text, names))
    if not found.type.startswith(("timestamp", "struct")):
        script.fail(
            word.start,
            f"the watermark's column {found.name} is of type {found.type.upper()}",
            "event time is a TIMESTAMP column; convert it where the files are written, or in a view with WATERMARK",
        )


def _check_sink(script: Script, sink: CreateSink) -> None:
    name, target = _format(script, sink.format, SINKS, SOURCES, "sink", "source")
    _check_options(script, sink.format, sink.options, target)
    if name == "memory" and not re.fullmatch(r"[A-Za-z_]\w*", sink.name.text, re.ASCII):
        script.fail(sink.name.start, "a memory sink is a table of its name: letters, digits and _ only")
    if sink.mode is not None and sink.mode.text not in target.modes:
        modes = " or ".join(target.modes)
        hint = "use MODE append, or a foreachBatch sink that writes the changes"
        script.fail(sink.mode.start, f"a {name} sink takes MODE {modes} only, not {sink.mode.text}", hint)
    checkpoint = sink.options.find(CHECKPOINT)
    if target.checkpoint and checkpoint is None:
        script.fail(
            sink.name.start,
            f"the sink {sink.name} has no {CHECKPOINT}: without one a restart would lose or repeat rows",
            f"add it: OPTIONS ({CHECKPOINT} 'folder', ...)",
        )


def _check_target(script: Script, sink: CreateSink, *, late: bool) -> None:
    name = find_format(SINKS, sink.format.text)
    for word in (sink.options.find(CHECKPOINT), sink.options.find("path") if name in FOLDERS else None):
        if word is not None:
            _refuse(script, word, why_unwritable(word.text))
    path, checkpoint = sink.options.find("path"), sink.options.text(CHECKPOINT)
    numbered = name in FILES and not late  # the log of late rows has numbers of its own: see `late_sinks`
    if numbered and path is not None and checkpoint and (why := why_of_another(path.text, checkpoint)):
        script.fail(path.start, why, EMPTY_OR_RENAME)
    function = sink.options.find("function")
    if name == "foreachBatch" and function is not None:
        load_function(script, function)
    _check_class(script, sink)


def _check_class(script: Script, one: CreateStream | CreateSink) -> None:
    word = one.options.find("class")
    if one.format.text.lower() == PYTHON and word is not None:
        load_source(script, word)


def _check_insert(job: Job, insert: InsertInto) -> None:
    name = insert.sink.text
    if job.sink(name) is None:
        sinks = [sink.name.text for sink in job.sinks]
        if any(stream.name.text.lower() == name.lower() for stream in job.streams):
            job.script.fail(insert.sink.start, f"{name} is a stream: rows are inserted into a sink", None)
        hint = did_you_mean(name, sinks) if sinks else "declare it: CREATE SINK name USING format ..."
        job.script.fail(insert.sink.start, f"there is no sink named {name}", hint)
    check_late(job, insert)
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


def _check_sharing(job: Job) -> None:
    """Check that no two sinks write to one folder, and none writes where a stream reads."""
    taken: dict[str, tuple[str, str]] = {}
    for stream in job.streams:
        path = stream.options.find("path")
        if path is not None:
            taken[_folder(path.text)] = ("stream", stream.name.text)
    for sink in job.sinks:
        words = [("checkpoint", sink.options.find(CHECKPOINT))]
        if find_format(SINKS, sink.format.text) in FILES:
            words.append(("output", sink.options.find("path")))
        for role, word in words:
            if word is None:
                continue
            kind, other = taken.setdefault(_folder(word.text), (role, sink.name.text))
            if (kind, other) != (role, sink.name.text):
                what = "is read by the stream" if kind == "stream" else f"is the {kind} of the sink"
                job.script.fail(word.start, f"the folder {word.text} {what} {other}", "choose another folder")


def _folder(location: str) -> str:
    path = local_path(location)
    return location.rstrip("/") if path is None else os.path.realpath(path)  # the same through `..` or a link


def _format(
    script: Script, word: Word, formats: dict[str, Format], others: dict[str, Format], role: str, other: str
) -> tuple[str, Format]:
    name = find_format(formats, word.text)
    if name is None:
        if find_format(others, word.text):
            script.fail(word.start, f"{word.text} is a {other}, no {role}", f"a {role} is one of {', '.join(formats)}")
        if close(word.text, tuple(formats), 0.7):
            hint = did_you_mean(word.text, tuple(formats))
            script.fail(word.start, f"there is no {role} format named {word.text}", hint)
        return word.text, OTHER  # one of a package's; Spark is asked for it before anything runs
    return name, formats[name]


def _check_options(script: Script, name: Word, options: Options, taken: Format, ours: tuple[str, ...] = ()) -> None:
    for option in options:
        key, value = option.key, option.value
        if key.text.lower().startswith("trijoin."):
            if key.text.lower() not in [known.lower() for known in ours]:
                script.fail(key.start, f"there is no option {key.text} of ours here", did_you_mean(key.text, ours))
            if positive(value.text) is None:
                script.fail(value.start, f"{key.text} takes a number of rows a second above 0, not {value.text!r}")
            continue
        known = next((known for known in taken.options if known.lower() == key.text.lower()), None)
        if known is None and not (taken.open and key.text.lower().startswith("kafka.")):
            best = close(key.text, taken.options, 0.8)
            if best or not taken.open:
                hint = f"did you mean {best}?" if best else f"it takes {', '.join(taken.options)}"
                script.fail(key.start, f"{name} has no option {key.text}", hint)
        least = COUNTS.get(known or "")
        if least is not None and not (re.fullmatch("[0-9]+", value.text) and int(value.text) >= least):
            script.fail(value.start, f"{known} takes a whole number from {least} up, not {value.text!r}")
        if known == "port" and int(value.text) > 65535:
            script.fail(value.start, f"{value.text} is no port: ports end at 65535")
        if known in BOOLEANS and value.text.lower() not in ("true", "false"):
            script.fail(value.start, f"{known} takes true or false, not {value.text!r}")
        if known in ("path", "table", CHECKPOINT, "host", "function", "class") and not value.text.strip():
            script.fail(value.start, f"{known} is empty")
    for names in taken.required:
        given = [word for known in names if (word := options.find(known)) is not None]
        if not given:
            several = f"one of the options {', '.join(names)}" if len(names) > 1 else f"the option {names[0]}"
            script.fail(name.start, f"{name} needs {several}", f"add it: OPTIONS ({names[0]} '...')")
        if len(given) > 1:
            script.fail(given[1].start, f"only one of the options {', '.join(names)} can be given")


def _refuse(script: Script, word: Word, reason: str | None) -> None:
    if reason is not None:
        script.fail(word.start, reason)


def _unused(job: Job) -> list[str]:
    inserted = {word.text.lower() for insert in job.inserts for word in (insert.sink, insert.late) if word is not None}
    read = {
        token.text.lower()
        for statement in job.statements
        if isinstance(statement, InsertInto | SparkStatement)
        for token in tokenize(statement.query.text if isinstance(statement, InsertInto) else statement.sql.text)
    }
    unused = [("sink", sink.name, "gets no rows") for sink in job.sinks if sink.name.text.lower() not in inserted]
    unused += [("stream", s.name, "is read by no query") for s in job.streams if s.name.text.lower() not in read]
    return [
        f"{job.script.path}:{':'.join(map(str, job.script.place(name.start)))}: the {kind} {name} {what}"
        for kind, name, what in sorted(unused, key=lambda item: item[1].start)
    ]
