"""The statements of a job file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..rewriter.sql.clauses import NO_OPTIONS, ColumnDefinition, Options, WatermarkClause, Word
from .job_text import Script

#: How results are put out, as Spark names it.
MODES = ("append", "update", "complete")

#: The trigger that gives results row by row, as ``DataStreamWriter.trigger`` names it.
REAL_TIME = "realTime"


@dataclass(frozen=True, slots=True)
class CreateStream:
    """``CREATE STREAM name [(columns)] USING format [OPTIONS (...)] [WATERMARK ...]``."""

    name: Word
    format: Word
    columns: tuple[ColumnDefinition, ...] = ()
    options: Options = NO_OPTIONS
    watermark: WatermarkClause | None = None


@dataclass(frozen=True, slots=True)
class CreateSink:
    """``CREATE SINK name USING format [OPTIONS (...)] [MODE ...] [TRIGGER ...]``."""

    name: Word
    format: Word
    options: Options = NO_OPTIONS
    mode: Word | None = None
    #: What ``DataStreamWriter.trigger`` takes; None: micro-batches follow each other.
    trigger: Mapping[str, str | bool] | None = None

    @property
    def output_mode(self) -> str:
        """The output mode; append, as in Spark, if none is given."""
        return "append" if self.mode is None else self.mode.text

    @property
    def in_real_time(self) -> bool:
        """Whether results come row by row."""
        return self.trigger is not None and REAL_TIME in self.trigger


@dataclass(frozen=True, slots=True)
class InsertInto:
    """``INSERT INTO sink SELECT ... [LATE ROWS INTO sink]``."""

    sink: Word
    query: Word
    late: Word | None = None


@dataclass(frozen=True, slots=True)
class SparkStatement:
    """Any other statement."""

    sql: Word


@dataclass(frozen=True, slots=True)
class StartSetting:
    """``SET spark.jars... = ...``: a setting that has to be known before Spark starts."""

    key: str
    value: str


JobStatement = CreateStream | CreateSink | InsertInto | SparkStatement | StartSetting


@dataclass(frozen=True, slots=True)
class Job:
    """A job file that parses."""

    script: Script
    statements: tuple[JobStatement, ...]

    @property
    def streams(self) -> list[CreateStream]:
        """All streams, in order."""
        return [statement for statement in self.statements if isinstance(statement, CreateStream)]

    @property
    def sinks(self) -> list[CreateSink]:
        """All sinks, in order."""
        return [statement for statement in self.statements if isinstance(statement, CreateSink)]

    @property
    def inserts(self) -> list[InsertInto]:
        """All queries, in order."""
        return [statement for statement in self.statements if isinstance(statement, InsertInto)]

    def is_late(self, sink: CreateSink) -> bool:
        """Tell whether a sink gets late rows."""
        return sink.name.text.lower() in [one.late.text.lower() for one in self.inserts if one.late is not None]

    def sink(self, name: str) -> CreateSink | None:
        """Return the sink of a name, ignoring case."""
        return next((sink for sink in self.sinks if sink.name.text.lower() == name.lower()), None)
