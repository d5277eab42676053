"""Mistakes of a job that show without Spark, in the order in which they are looked for."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from ..rewriter.job_heads import after
from ..rewriter.sql.catalog import RATE_SETTING
from ..rewriter.sql.clauses import Word
from ..rewriter.sql.dialect import tokenize
from ..rewriter.sql.statement import tree_of
from ..settings import hint_if_unknown
from ..spark.zones import hint_if_no_zone
from .check_declarations import check_sink, check_stream, declared_catalog
from .check_inserts import check_insert, check_output
from .columns import check_columns
from .formats import CHECKPOINT, FILES, FOLDERS, PYTHON, SINKS, SOURCES, find_format
from .job_text import Script
from .paths import local_path, why_of_another, why_unreadable, why_unwritable
from .planning import NO_STREAM, Refusals, reads_nothing
from .setting_names import assignment
from .statements import CreateSink, CreateStream, InsertInto, Job, SparkStatement
from .user_code import load_function, load_source

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
                check_stream(job.script, statement)
            case CreateSink():
                check_sink(job.script, statement)
            case InsertInto():
                check_insert(job, statement)
            case SparkStatement():
                check_setting(job.script, statement.sql.text, statement.sql.start)
    _check_sharing(job)
    _check_order(job)
    catalog = declared_catalog(job.streams)
    for statement in job.statements:
        match statement:
            case InsertInto(query=sql):
                check_columns(job.script, sql.text, sql.start, catalog)
            case SparkStatement(sql=sql) if assignment(sql.text) is None:
                if re.match(r"CREATE\b.*?\bVIEW\b", sql.text, re.IGNORECASE):
                    check_columns(job.script, sql.text, sql.start, catalog)
                catalog = after(catalog, sql.text)


def _check_order(job: Job) -> None:
    """Check that the streams of a query are declared before it."""
    behind = {one.name.text.lower(): one.name for one in job.streams}
    for statement in job.statements:
        if isinstance(statement, CreateStream):
            behind.pop(statement.name.text.lower(), None)
        if not isinstance(statement, InsertInto) or not behind:
            continue
        tree = tree_of(statement.query.text)
        ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)} if tree is not None else set()
        for table in tree.find_all(exp.Table) if tree is not None else ():
            later = behind.get(table.name.lower())
            if later is not None and not table.db and table.name.lower() not in ctes:
                line, _ = job.script.place(later.start)
                at = statement.query.start + int(table.parts[0].meta.get("start") or 0)
                hint = "move its CREATE STREAM up"
                job.script.fail(at, f"{later} is declared on line {line}, behind this statement", hint)


def _check_plans(job: Job, settings: Mapping[str, str]) -> None:
    """Find what the rewriter refuses, whatever Spark knows."""
    if "spark.sql.casesensitive" in " ".join([job.script.text, *settings]).lower():
        return
    refusals = Refusals(job.script, declared_catalog(job.streams), dict(settings))
    for statement in job.statements:
        match statement:
            case SparkStatement(sql=sql):
                refusals.look(sql)
            case InsertInto(sink=name, query=sql):
                sink = job.sink(name.text)
                assert sink is not None  # `check_statements` has looked
                if reads_nothing(sql.text):
                    job.script.fail(sql.start, *NO_STREAM)
                refusals.look(sql, sink, statement.late)
                columns = refusals.output(sql)
                if columns is not None:
                    check_output(job.script, columns, statement, sink)


def _check_names(job: Job) -> None:
    known: dict[str, Word] = {}
    others = [one.sql for one in job.statements if isinstance(one, SparkStatement)]
    dropped = any(re.match(r"\s*DROP\b", sql.text, re.IGNORECASE) for sql in others)
    views = () if dropped else map(_new_view, others)
    for name in (*(stream.name for stream in job.streams), *(sink.name for sink in job.sinks), *filter(None, views)):
        first = known.setdefault(name.text.lower(), name)
        if first is not name:
            first, name = sorted((first, name), key=lambda word: word.start)
            line, _ = job.script.place(first.start)
            job.script.fail(name.start, f"there is already something named {name.text}, on line {line}")


def _new_view(sql: Word) -> Word | None:
    """Return the name of the temporary view that a statement makes, None if it replaces what has that name."""
    tokens = tokenize(sql.text)[:4]
    words = [token.text.upper() for token in tokens]
    if len(tokens) < 4 or words[0] != "CREATE" or words[1] not in ("TEMP", "TEMPORARY") or words[2] != "VIEW":
        return None
    return None if words[3] == "IF" else Word(tokens[3].text, sql.start + tokens[3].start)


def check_setting(script: Script, sql: str, start: int) -> None:
    """Check that the setting of ours which a statement sets exists, and the session's time zone.

    Raises
    ------
    JobError
        There is no such setting, or no such zone.
    """
    found = assignment(sql)
    spaced = re.match(r"\s*SET\s+`?(spark\.[\w.]+)`?\s+[^=\s]", sql, re.IGNORECASE)
    if spaced is not None:
        script.fail(start + spaced.start(1), f"SET {spaced[1]} has no =", f"write SET {spaced[1]} = value")
    if found is not None and (hint := hint_if_unknown(found.key)) is not None:
        script.fail(start + found.start, f"there is no setting {found.key}", hint)
    zone = re.match(r"\s*SET\s+(?:TIME\s+ZONE\s+'([^']+)'|`?spark\.sql\.session\.timeZone`?\s*=\s*(\S+))", sql, re.I)
    if zone is not None and (hint := hint_if_no_zone(name := zone[1] or zone[2])) is not None:
        script.fail(start + sql.index(name), f"there is no time zone {name}", hint)


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


def _last(word: Word) -> str:
    return word.text.lower().replace("`", "").rpartition(".")[2]


def _refuse(script: Script, word: Word, reason: str | None) -> None:
    if reason is not None:
        script.fail(word.start, reason)


def _unused(job: Job) -> list[str]:
    inserted = {word.text.lower() for insert in job.inserts for word in (insert.sink, insert.late) if word is not None}
    read = {
        token.text.lower()
        for statement in job.statements
        if isinstance(statement, InsertInto)
        or (isinstance(statement, SparkStatement) and assignment(statement.sql.text) is None)
        for token in tokenize(statement.query.text if isinstance(statement, InsertInto) else statement.sql.text)
    }
    rated = [
        Word(found.key[len(RATE_SETTING) :], one.sql.start + found.start + len(RATE_SETTING))
        for one in job.statements
        if isinstance(one, SparkStatement) and (found := assignment(one.sql.text)) is not None
        if found.key.lower().startswith(RATE_SETTING)
    ]
    unused = [("sink", sink.name, "gets no rows") for sink in job.sinks if sink.name.text.lower() not in inserted]
    unused += [("stream", s.name, "is read by no query") for s in job.streams if s.name.text.lower() not in read]
    unused += [("rate of", one, "counts for nothing: no query reads it") for one in rated if _last(one) not in read]
    return [
        f"{job.script.path}:{':'.join(map(str, job.script.place(name.start)))}: the {kind} {name} {what}"
        for kind, name, what in sorted(unused, key=lambda item: item[1].start)
    ]
