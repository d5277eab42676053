"""What each source and sink format takes: the tables that `check` reads."""

from __future__ import annotations

from dataclasses import dataclass

from ..rewriter.sql.clauses import Options

#: Formats that are folders of files.
FILES = ("parquet", "json", "csv", "orc", "text")

CHECKPOINT = "checkpointLocation"

_FILE_SOURCE = (
    *(
        "path",
        "maxFilesPerTrigger",
        "maxBytesPerTrigger",
        "maxCachedFiles",
        "latestFirst",
        "maxFileAge",
        "fileNameOnly",
    ),
    *("cleanSource", "sourceArchiveDir", "pathGlobFilter", "recursiveFileLookup", "modifiedBefore", "modifiedAfter"),
)
_FILE_SINK = ("path", CHECKPOINT, "compression", "retention")
_TEXT_FILES = ("encoding", "charset", "lineSep", "locale", "timeZone", "compression")
_DATES = ("dateFormat", "timestampFormat", "timestampNTZFormat", "enableDateTimeParsingFallback")
_RECORDS = (*_DATES, "mode", "columnNameOfCorruptRecord", "multiLine", "samplingRatio")
_OF_FILES: dict[str, tuple[str, ...]] = {
    "parquet": ("mergeSchema", "datetimeRebaseMode", "int96RebaseMode"),
    "orc": ("mergeSchema",),
    "text": (*_TEXT_FILES, "wholetext"),
    "json": (
        *_TEXT_FILES,
        *_RECORDS,
        *("primitivesAsString", "prefersDecimal", "allowComments", "allowUnquotedFieldNames", "allowSingleQuotes"),
        *("allowNumericLeadingZeros", "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars"),
        *("allowNonNumericNumbers", "dropFieldIfAllNull", "ignoreNullFields"),
    ),
    "csv": (
        *_TEXT_FILES,
        *_RECORDS,
        *("sep", "delimiter", "header", "quote", "escape", "quoteAll", "escapeQuotes", "comment", "inferSchema"),
        *("enforceSchema", "preferDate", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "nullValue"),
        *("emptyValue", "nanValue", "positiveInf", "negativeInf", "maxColumns", "maxCharsPerColumn"),
        *("unescapedQuoteHandling", "charToEscapeQuoteEscaping"),
    ),
}
_KAFKA = "kafka.bootstrap.servers"

#: Formats whose sources and sinks are tables, named by a path or by their name in a catalog (the option ``table``).
TABLES = ("delta", "iceberg")

#: Formats whose paths are folders; one of Iceberg may be a name in a catalog.
FOLDERS = (*FILES, "delta")

#: The format of a class of the user's, a ``pyspark.sql.datasource.DataSource``.
PYTHON = "python"

#: Options with a whole number, and its least value, or with true and false.
COUNTS = {
    **dict.fromkeys(("rowsPerSecond", "rowsPerBatch", "numPartitions", "minPartitions", "numRows", "port"), 1),
    **dict.fromkeys(("maxFilesPerTrigger", "maxOffsetsPerTrigger", "minOffsetsPerTrigger"), 1),
    **dict.fromkeys(("rampUpTime", "advanceMillisPerBatch", "startTimestamp"), 0),
}
BOOLEANS = (
    *("includeTimestamp", "latestFirst", "fileNameOnly", "recursiveFileLookup", "includeHeaders", "failOnDataLoss"),
    *("truncate", "header", "multiLine", "mergeSchema"),
)


@dataclass(frozen=True, slots=True)
class Format:
    """What a format takes.

    Parameters
    ----------
    options
        Known options.
    required
        Required options; a tuple of names means one of them.
    open
        Whether Spark takes unlisted options, so that only an obvious typing mistake is an error.
    columns
        For sources: fixed columns with their types; None if they are declared or read from files.
    declares
        For sources: whether columns must be declared.
    modes
        For sinks: the output modes.
    checkpoint
        For sinks: whether results are exact only with a checkpoint that outlives the run.
    """

    options: tuple[str, ...]
    required: tuple[tuple[str, ...], ...] = ()
    open: bool = False
    columns: tuple[tuple[str, str], ...] | None = None
    declares: bool = False
    modes: tuple[str, ...] = ("append", "update", "complete")
    checkpoint: bool = False


_PLACE = (("path", "table"),)
_RATE_COLUMNS = (("timestamp", "timestamp"), ("value", "bigint"))

SOURCES: dict[str, Format] = {
    **{
        name: Format(
            (*_FILE_SOURCE, *_OF_FILES[name]),
            (("path",),),
            open=True,
            declares=name in ("json", "csv"),
            columns=(("value", "string"),) if name == "text" else None,
        )
        for name in FILES
    },
    "rate": Format(("rowsPerSecond", "rampUpTime", "numPartitions"), columns=_RATE_COLUMNS),
    "rate-micro-batch": Format(
        ("rowsPerBatch", "numPartitions", "startTimestamp", "advanceMillisPerBatch"),
        (("rowsPerBatch",),),
        columns=_RATE_COLUMNS,
    ),
    "socket": Format(
        ("host", "port", "includeTimestamp"),
        (("host",), ("port",)),
        columns=(("value", "string"), ("timestamp", "timestamp")),
    ),
    "kafka": Format(
        (
            *(_KAFKA, "subscribe", "subscribePattern", "assign", "startingOffsets", "startingTimestamp"),
            *("startingOffsetsByTimestamp", "endingOffsets", "failOnDataLoss", "maxOffsetsPerTrigger"),
            *("minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "groupIdPrefix", "includeHeaders"),
            *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
        ),
        ((_KAFKA,), ("subscribe", "subscribePattern", "assign")),
        open=True,
        columns=(
            ("key", "binary"),
            ("value", "binary"),
            ("topic", "string"),
            ("partition", "int"),
            ("offset", "bigint"),
            ("timestamp", "timestamp"),
            ("timestampType", "int"),
            ("headers", "array<struct<key:string,value:binary>>"),
        ),
    ),
    "delta": Format(
        (
            *("path", "table", "maxFilesPerTrigger", "maxBytesPerTrigger", "startingVersion", "startingTimestamp"),
            *("ignoreDeletes", "ignoreChanges", "skipChangeCommits", "withEventTimeOrder", "readChangeFeed"),
            *("failOnDataLoss", "excludeRegex", "schemaTrackingLocation"),
        ),
        _PLACE,
        open=True,
    ),
    "iceberg": Format(
        (
            *("path", "table", "stream-from-timestamp", "streaming-max-files-per-micro-batch"),
            *("streaming-max-rows-per-micro-batch", "streaming-skip-delete-snapshots"),
            "streaming-skip-overwrite-snapshots",
        ),
        _PLACE,
        open=True,
    ),
    PYTHON: Format(("class",), (("class",),), open=True),
}

SINKS: dict[str, Format] = {
    **{
        name: Format((*_FILE_SINK, *_OF_FILES[name]), (("path",),), open=True, modes=("append",), checkpoint=True)
        for name in FILES
    },
    "console": Format(("numRows", "truncate", CHECKPOINT)),
    "memory": Format(("numRows", CHECKPOINT)),
    "noop": Format((CHECKPOINT,)),
    "kafka": Format((_KAFKA, "topic", "includeHeaders", CHECKPOINT), ((_KAFKA,),), open=True, checkpoint=True),
    "foreachBatch": Format(("function", CHECKPOINT), (("function",),), checkpoint=True),
    "delta": Format(
        ("path", "table", CHECKPOINT, "mergeSchema", "overwriteSchema", "userMetadata"),
        _PLACE,
        open=True,
        modes=("append", "complete"),
        checkpoint=True,
    ),
    "iceberg": Format(
        ("path", "table", CHECKPOINT, "fanout-enabled", "write-format", "target-file-size-bytes", "mergeSchema"),
        _PLACE,
        open=True,
        modes=("append", "complete"),
        checkpoint=True,
    ),
    PYTHON: Format(("class", CHECKPOINT), (("class",),), open=True, checkpoint=True),
}

#: Sinks that late rows can go to, and results beside them: micro-batches are written by a function of ours, which knows
#: what each of them does with a repeated one.
WITH_LATE_ROWS = (*FILES, "console", "memory", "noop", "kafka", "foreachBatch", "delta")

#: Sinks that take rows one by one, and sources that give them so.
ROW_BY_ROW, FROM_ROW_BY_ROW = ("kafka", "console"), ("kafka",)

#: A format that only Spark knows: one of another package, by its name or the name of its class.
OTHER = Format((CHECKPOINT,), open=True, checkpoint=True)

#: Columns that are there only where an option says so.
_ON_DEMAND = {"socket": ("timestamp", "includeTimestamp"), "kafka": ("headers", "includeHeaders")}


def fixed_columns(name: str, options: Options) -> tuple[tuple[str, str], ...]:
    """Return the columns that a source's streams always have, with their types; none if they are declared or read."""
    known = find_format(SOURCES, name) or ""
    columns = (SOURCES[known].columns if known else None) or ()
    column, option = _ON_DEMAND.get(known, ("", ""))
    return columns if not column or options.is_true(option) else tuple(c for c in columns if c[0] != column)


def find_format(formats: dict[str, Format], name: str) -> str | None:
    """Return a format's name as the table spells it, ignoring case; None if there is no such format."""
    return next((known for known in formats if known.lower() == name.lower()), None)
