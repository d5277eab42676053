"""Mistakes in CREATE STREAM and CREATE SINK that show in their text: formats, options, types, modes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..rewriter.plan.parts import Column
from ..rewriter.sql.catalog import RATE_OPTION, DdlCatalog, TableInfo, positive
from ..rewriter.sql.clauses import Options, Word
from ..rewriter.sql.intervals import length_microseconds
from ..rewriter.sql.similar import close, did_you_mean
from ..rewriter.sql.type_names import TYPES, no_type
from .formats import BOOLEANS, CHECKPOINT, COUNTS, OTHER, ROW_BY_ROW, SINKS, SOURCES, Format, find_format, fixed_columns
from .job_text import Script
from .statements import CreateSink, CreateStream
from .user_code import check_named


def check_stream(script: Script, stream: CreateStream) -> None:
    """Check the format, the options, the columns and the watermark of a stream.

    Raises
    ------
    JobError
        At the first mistake.
    """
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
            script.fail(column.type.start, *no_type(column.type.text if first is None else first[0]))
        if re.fullmatch(r"(?i)(var)?char(acter)?", column.type.text):
            script.fail(column.type.start, f"{column.type.text} needs a length", "write STRING, which has none")
        digits = re.match(r"(?i)(?:decimal|dec|numeric)\s*\(\s*(\d+)", column.type.text)
        if digits is not None and int(digits[1]) > 38:
            script.fail(column.type.start, f"{column.type.text} has more than 38 digits", "a DECIMAL has 38 at most")
    _check_watermark(script, stream)


def _check_watermark(script: Script, stream: CreateStream) -> None:
    columns = declared_columns(stream)
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


def check_sink(script: Script, sink: CreateSink) -> None:
    """Check the format, the options and the output mode of a sink.

    Raises
    ------
    JobError
        At the first mistake.
    """
    name, target = _format(script, sink.format, SINKS, SOURCES, "sink", "source")
    _check_options(script, sink.format, sink.options, target)
    if name == "memory" and not re.fullmatch(r"[A-Za-z_]\w*", sink.name.text, re.ASCII):
        script.fail(sink.name.start, "a memory sink is a table of its name: letters, digits and _ only")
    if sink.mode is not None and sink.mode.text not in target.modes:
        modes = " or ".join(target.modes)
        hint = "use MODE append, or a foreachBatch sink that writes the changes"
        script.fail(sink.mode.start, f"a {name} sink takes MODE {modes} only, not {sink.mode.text}", hint)
    if sink.in_real_time and name not in ROW_BY_ROW:
        hint = f"write into {' or '.join(ROW_BY_ROW)}, or give it another TRIGGER"
        script.fail(sink.format.start, f"a {name} sink takes no rows one by one, and its trigger is REAL TIME", hint)
    function = sink.options.find("function")
    if name == "foreachBatch" and function is not None:
        check_named(script, function)
    checkpoint = sink.options.find(CHECKPOINT)
    if target.checkpoint and checkpoint is None:
        script.fail(
            sink.name.start,
            f"the sink {sink.name} has no {CHECKPOINT}: without one a restart would lose or repeat rows",
            f"add it: OPTIONS ({CHECKPOINT} 'folder', ...)",
        )


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


def declared_catalog(streams: Iterable[CreateStream]) -> DdlCatalog:
    """Return a catalog of streams as they are declared."""
    tables = []
    for stream in streams:
        mark = stream.watermark
        times = () if mark is None else ((mark.column.text, length_microseconds(mark.delay.text)),)
        tables.append((stream.name.text, TableInfo(tuple(declared_columns(stream)), True, times=times)))
    return DdlCatalog(tuple(tables))


def declared_columns(stream: CreateStream) -> list[Column]:
    """Return a stream's columns; none if only the files have them."""
    declared = [Column(column.name.text, column.kind) for column in stream.columns]
    return declared or [Column(*column) for column in fixed_columns(stream.format.text, stream.options)]
