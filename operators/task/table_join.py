"""One stage of a join over tables, in ``mapInArrow`` over partitions that hold whole slots."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pyarrow as pa

from ..worker_memory import settle
from .stage import Stage, StageTask


class TableJoin:
    """Joins the packed rows of a partition's slots.

    A unit holds the rows of its slot in memory. What it finds goes out as it is found.

    Parameters
    ----------
    stage
        The stage.
    """

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        aliases = "_".join(stream.alias for stream in stage.spec.streams)
        self.__name__ = re.sub(r"\W", "_", f"join_{aliases}")  # Spark's plan shows it

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Join one partition: batches of `PACKED_SCHEMA` in, results (or packed rows) out."""
        slots: dict[int, list[tuple[int, pa.Buffer]]] = {}
        for batch in batches:
            keys, kinds = (batch.column(name).to_pylist() for name in ("slot", "kind"))
            for key, kind, data in zip(keys, kinds, batch.column("data"), strict=True):
                slots.setdefault(key, []).append((kind, data.as_buffer()))
        task = StageTask(self.stage)
        for key in list(slots):
            yield from task.join_tables(key, slots.pop(key))
        if self.stage.freezes:
            settle()
