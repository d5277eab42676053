"""Inputs whose columns a file does not declare, read without Spark: from the files that are there.

What cannot be read as Spark would is not known: a guess would refuse what Spark runs.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..rewriter.plan.parts import Column
from ..rewriter.sql.catalog import DdlCatalog, TableInfo
from ..rewriter.sql.clauses import Option, Options, Word
from ..rewriter.sql.spark_types import UNKNOWN, type_name
from .formats import FILES, TABLES, fixed_columns
from .paths import local_path

Columns = tuple[tuple[str, str], ...]

#: Formats that stand before a path in FROM.
_BEFORE_A_PATH = (*FILES, *TABLES, "avro", "binaryfile")

#: Options with which Spark reads other files, or other columns.
_CHANGING = (
    *("mergeSchema", "basePath", "recursiveFileLookup", "pathGlobFilter", "modifiedBefore", "modifiedAfter"),
    *("versionAsOf", "timestampAsOf", "readChangeFeed", "readChangeData"),
    *("encoding", "charset", "comment", "quote", "escape", "lineSep", "multiLine", "locale", "singleVariantColumn"),
    *("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace"),
)


@dataclass(frozen=True)
class FileCatalog(DdlCatalog):
    """What a file declares, and what it need not: files by their path, and tables of Spark's catalog."""

    def table(self, name: tuple[str, ...]) -> TableInfo | None:
        """Return what is known about a relation. Beside declared streams, one that is not declared is no stream."""
        known = super().table(name)
        if known is None and is_path(name):
            path = Options((Option(Word("path", 0), Word(name[1], 0)),))
            return TableInfo(tuple(Column(*column) for column in found_columns(name[0], path)), streaming=False)
        if known is None and any(info.streaming for _, info in self.tables):
            return TableInfo((), streaming=False)
        return known


def is_path(name: tuple[str, ...]) -> bool:
    """Tell whether a relation is files at a path: ``FROM csv.`file```."""
    return len(name) == 2 and name[0].lower() in _BEFORE_A_PATH


def found_columns(name: str, options: Options) -> Columns:
    """Return the columns of an input that declares none, with their types; none if they are not known."""
    kind, fixed = name.lower(), fixed_columns(name, options)
    place = local_path(options.text("path") or "")
    if fixed or place is None or not options.text("path") or any(options.find(option) for option in _CHANGING):
        return fixed
    with suppress(OSError, ValueError, LookupError, TypeError, StopIteration, csv.Error):  # Spark says what is wrong
        if kind == "delta":
            return _of_spark(json.loads(_of_delta(place / "_delta_log")))
        files = sorted(_files(place))
        found = {tuple(_in_file(kind, file, options)) for file in (files[0], files[-1])}
        if len(found) == 1:
            (columns,) = found
            folders = files[0].relative_to(place).parent.parts
            return (*columns, *((part.partition("=")[0], UNKNOWN) for part in folders if "=" in part))
    return ()


def _files(place: Path) -> Iterator[Path]:
    """Yield the files that Spark would read."""
    if place.is_file():
        yield place
    for folder, below, names in os.walk(place):
        below[:] = [one for one in below if one[0] != "." and (one[0] != "_" or "=" in one)]
        yield from (Path(folder, one) for one in names if one[0] not in "._" and not one.endswith("._COPYING_"))


def _in_file(kind: str, file: Path, options: Options) -> Columns:
    """Return the columns of a file; none if only Spark finds them."""
    match kind:
        case "parquet":
            from pyarrow import parquet

            footer = parquet.read_metadata(file)
            written = (footer.metadata or {}).get(b"org.apache.spark.sql.parquet.row.metadata")
            if written is not None:
                return _of_spark(json.loads(written))
            physical = [footer.schema.column(number) for number in range(len(footer.schema))]
            old = {one.path for one in physical if one.physical_type == "INT96"}  # instants, which Arrow does not say
            fields = footer.schema.to_arrow_schema()
            return tuple((one.name, "timestamp" if one.name in old else _of_arrow(one.type)) for one in fields)
        case "orc":
            from pyarrow import orc

            schema = orc.ORCFile(file).schema
            return tuple((one.name, _of_arrow(one.type).replace("_ntz", "")) for one in schema)
        case "csv":
            return _of_csv(file, options)
    return ()


def _of_csv(file: Path, options: Options) -> Columns:
    separator = options.text("sep") or options.text("delimiter") or ","
    with file.open(encoding="utf-8", newline="") as lines:
        first = next(csv.reader((line for line in lines if line.strip()), delimiter=separator))
    names = [name if name and options.is_true("header") else f"_c{at}" for at, name in enumerate(first)]
    if len({name.lower() for name in names}) < len(names):
        return ()
    return tuple((name, UNKNOWN if options.is_true("inferSchema") else "string") for name in names)


def _of_delta(log: Path) -> str:
    """Return the newest schema in a Delta table's log: of a commit, else of a checkpoint."""
    for commit in sorted(log.glob("*.json"), reverse=True):
        for action in map(json.loads, commit.read_text("utf-8").splitlines()):
            if "metaData" in action:
                return str(action["metaData"]["schemaString"])
    from pyarrow import parquet

    last = max(log.glob("*.checkpoint*.parquet")).name.partition(".")[0]
    rows = (parquet.read_table(part, columns=["metaData"]) for part in log.glob(f"{last}.checkpoint*.parquet"))
    return next(str(one["schemaString"]) for table in rows for one in table["metaData"].to_pylist() if one)


def _of_spark(schema: dict[str, Any]) -> Columns:
    """Return the columns of a schema in Spark's JSON."""
    return tuple((one["name"], _spark_type(one["type"])) for one in schema["fields"])


def _spark_type(kind: Any) -> str:
    match kind:
        case str():
            return type_name(kind)
        case {"type": "array", "elementType": inner}:
            return f"array<{_spark_type(inner)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_spark_type(key)},{_spark_type(value)}>"
        case {"type": "struct", "fields": fields}:
            return f"struct<{','.join(':'.join(column) for column in _of_spark({'fields': fields}))}>"
    return UNKNOWN


def _of_arrow(kind: Any) -> str:
    """Return Spark's type for a plain one of Arrow's."""
    from pyarrow import types

    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return _ARROW.get(str(kind), UNKNOWN)


_ARROW = {
    **{"bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint"},
    **{"uint8": "smallint", "uint16": "int", "uint32": "bigint", "float": "float", "double": "double"},
    **{"string": "string", "large_string": "string", "binary": "binary", "date32[day]": "date"},
}
