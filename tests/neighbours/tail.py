"""A data source in Python: the lines of a file as a stream, and micro-batches as files, each exactly once.

It stands beside a job file in the test; it imports nothing that a worker does not have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)


class Lines(DataSource):
    """``USING python OPTIONS (class 'tail:Lines', path ...)``; the path is a file to read, or a folder to write to."""

    @classmethod
    def name(cls) -> str:
        return "tailed_lines"

    def schema(self) -> str:
        return "id BIGINT, x DOUBLE, ts TIMESTAMP"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return _Reader(Path(self.options["path"]))

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return _Writer(Path(self.options["path"]))


@dataclass
class _Range(InputPartition):
    first: int
    last: int


class _Reader(DataSourceStreamReader):
    def __init__(self, path: Path) -> None:
        self.path = path

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"line": 0}

    def latestOffset(self, *_unused: Any) -> dict[str, int]:  # noqa: N802
        return {"line": len(self.path.read_text("utf-8").splitlines())}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [_Range(start["line"], end["line"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, float, datetime]]:
        assert isinstance(partition, _Range)
        for line in self.path.read_text("utf-8").splitlines()[partition.first : partition.last]:
            row = json.loads(line)
            yield row["id"], row["x"], datetime.fromisoformat(row["ts"])


@dataclass
class _Rows(WriterCommitMessage):
    rows: list[list[Any]]


class _Writer(DataSourceStreamWriter):
    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _Rows([list(row)[:3] for row in iterator])

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 (Spark's name)
        rows = [row for message in messages if message is not None for row in message.rows]
        (self.path / f"{batchId}.json").write_text(json.dumps(rows), "utf-8")  # a repeated batch replaces its file

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803
        pass
