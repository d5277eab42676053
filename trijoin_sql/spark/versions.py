"""What differs between versions of Spark: what one lacks is refused by name, what has another name is found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import metadata
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..errors import UnavailableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The first version that our operators run on.
OLDEST = (4, 0)

#: Words of Spark's SQL that came after it.
SINCE: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "QUALIFY": (4, 2),
        "NEAREST": (4, 2),
        "ASOF": (4, 3),
        "MATCH_CONDITION": (4, 3),
        "JSON_TABLE": (4, 3),
        "UNNEST": (4, 3),
    }
)

#: Clauses of a relation that Spark 4.0 lacks (STREAM is a table or a function to it), and the errors that this makes.
_OF_RELATIONS = re.compile(
    r"(?:\bFROM|\bJOIN|,)\s+(STREAM)(?:\s+[\w`]|\s*\()|\b(WATERMARK)\s.*?\bDELAY\s+OF\b", re.IGNORECASE | re.DOTALL
)
_UNREAD = ("PARSE_SYNTAX_ERROR", "TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_COLUMN", "UNRESOLVABLE_TABLE_VALUED_FUNCTION")

#: How many words later an older parser stumbles: it takes such a word for the name of a table first.
_LATER = 6


def refuse_older(version: str) -> None:
    """Raise if this version of Spark is too old to run anything of ours.

    Raises
    ------
    UnavailableError
        It is.
    """
    if minor(version) < OLDEST:
        raise UnavailableError(
            f"Spark {version}", f"TriJoin SQL needs Spark {_text(OLDEST)} or newer", "pip install 'pyspark>=4.0,<4.4'"
        )


def make_up_for(spark: SparkSession) -> None:
    """Do what a newer Spark does by itself: in 4.1 state of a batch query has no coordinator before someone asks for
    streams.
    """
    if minor(spark.version) < (4, 2):
        _ = spark.streams.active


def installed() -> str:
    """Return the version of the installed PySpark, which is imported only where no package tells it."""
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:  # Spark's own folder on the path
        from pyspark import __version__

        return str(__version__)


def streaming_class(name: str, version: str) -> str:
    """Return the full name of a class of Spark's streaming engine, which has no packages below it in 4.0.

    Parameters
    ----------
    name
        Its package and name, as since 4.1.
    version
        Spark's version.

    Examples
    --------
    >>> streaming_class("sinks.FileStreamSink", "4.0.2")
    'org.apache.spark.sql.execution.streaming.FileStreamSink'
    """
    return f"org.apache.spark.sql.execution.streaming.{name if minor(version) >= (4, 1) else name.rpartition('.')[2]}"


def metadata_of(offsets: Any, version: str) -> Any:
    """Return the metadata (a Scala option) of a micro-batch's offsets, which 4.2 has renamed."""
    return offsets.metadata() if minor(version) < (4, 2) else offsets.metadataOpt()


def lacks(version: str, text: str, error: Exception) -> UnavailableError | None:
    """Return what to say of a statement that this version of Spark cannot parse and a newer one can.

    Parameters
    ----------
    version
        Spark's version.
    text
        The statement, as Spark got it.
    error
        The error of Spark's parser, with the place where it gave up.
    """
    from ..rewriter.sql.dialect import tokenize  # the settings of a session ask this module, before there is a parser

    place = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
    if place is None:
        return None
    line, column = int(place[1]), int(place[2])  # the column counts from 0
    lines = text.splitlines(keepends=True)
    at = sum(map(len, lines[: line - 1])) + column
    read = [token for token in tokenize(text) if token.start <= at][-_LATER - 1 :]
    for token in reversed(read):
        since = SINCE.get(token.text.upper())
        if since is not None and text[token.start] != "`" and minor(version) < since:
            return UnavailableError(token.text.upper(), f"it needs Spark {_text(since)}, and this is Spark {version}")
    return None


def lacks_clause(version: str, text: str, condition: str) -> UnavailableError | None:
    """Return what to say of a statement with an error of this condition, if it has clauses that Spark 4.0 lacks."""
    unread = minor(version) < (4, 1) and condition.startswith(_UNREAD)
    found = _OF_RELATIONS.search(text) if unread else None
    if found is None:
        return None
    way = "make it a view: spark.readStream.table(name).withWatermark(column, delay).createOrReplaceTempView(view)"
    clause = (found[1] or found[2]).upper()
    return UnavailableError(f"{clause} in FROM", f"it needs Spark 4.1, and this is Spark {version}", way)


def minor(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version, by which Spark's formats and names change.

    Examples
    --------
    >>> minor("4.10.0-SNAPSHOT") > minor("4.2.1")
    True
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else OLDEST


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def check_is_session(value: object) -> None:
    """Raise a TypeError if the argument is not a Spark session."""
    if isinstance(value, type) or not hasattr(type(value), "readStream"):
        what = f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
        raise TypeError(f"a SparkSession is needed, not {what}")
