"""``trijoin-sql state CHECKPOINT``: what a stopped query keeps, read from its checkpoint without changes.

Every slot's durable manifest (``operators/state/manifest.py``) lists its chunks; Spark's state data source reads the
manifests.
"""

from __future__ import annotations

import datetime
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table

from ..errors import CheckpointDamagedError, TriJoinError, UnavailableError
from ..spark.messages import last_cause

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OPERATOR = "transformWithStateInPandas"

HELP = """Show what a stopped query keeps: streams, units, chunks, rows, bytes, event times, hubs.

Reads the checkpoint and changes nothing; stop the query first.

\b
trijoin-sql state checkpoints/near

Exit codes: 0 done, 2 no checkpoint of ours at the place, or a damaged one.
"""


@dataclass(frozen=True, slots=True)
class StoreState:
    """The contents of one store of one slot.

    Parameters
    ----------
    operator, slot
        The stateful operator in the checkpoint, and the slot: it holds unit i of every stream's group.
    store
        Its name: a stream, or ``r.hubs.s`` (hubs of s with their packs of r), ``s.lists.r`` (later r of each s).
    chunks, rows, size
        Durable chunks, their rows, their bytes.
    oldest, newest
        Event times in ISO format, None if time does not bound the store.
    """

    operator: int
    slot: int
    store: str
    chunks: int
    rows: int
    size: int
    oldest: str | None
    newest: str | None


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """The contents of a checkpoint of ours.

    Parameters
    ----------
    batch, watermark
        The last committed micro-batch, and the watermark of the next one.
    fingerprints
        By operator: what must not change in its join at a restart, in lines.
    layouts
        By operator: ``(first micro-batch, units)`` of every layout of the units.
    stores
        The stores.
    """

    batch: int
    watermark: str | None
    fingerprints: dict[int, tuple[str, ...]]
    layouts: dict[int, tuple[tuple[int, ...], ...]]
    stores: tuple[StoreState, ...]


def _nothing(folder: Path, reason: str) -> UnavailableError:
    hint = "name the folder that the query's checkpointLocation names"
    return UnavailableError(f"the state in the folder {folder}", reason, hint)


def read_state(spark: SparkSession, checkpoint: Path) -> CheckpointState:
    """Read a checkpoint's manifests.

    Raises
    ------
    UnavailableError
        It is not a checkpoint, or no join of ours is in it.
    CheckpointDamagedError
        Files of it are missing or cannot be read.
    """
    if not (checkpoint / "state").is_dir():
        raise _nothing(checkpoint, "it holds no state of a streaming query")
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return _read(spark, checkpoint)
    except (Py4JError, PySparkException, OSError, ValueError, LookupError) as error:
        if isinstance(error, TriJoinError):
            raise
        raise CheckpointDamagedError(
            str(checkpoint), last_cause(str(error)).rstrip(".") or type(error).__name__
        ) from None


def _read(spark: SparkSession, checkpoint: Path) -> CheckpointState:
    from ..operators.state.manifest import MANIFEST, STATE, Manifest
    from ..operators.task.dispatch import slot_keys

    batch, watermark = _last_commit(checkpoint)
    manifests: list[tuple[int, int, Manifest]] = []
    for operator in _operators(spark, checkpoint):
        reader = spark.read.format("statestore").option("operatorId", operator).option("stateVarName", STATE)
        entries = reader.load(str(checkpoint)).where(f"user_map_key.number = {MANIFEST}")
        for row in entries.select("key.slot", "user_map_value.data").collect():
            manifests.append((operator, row["slot"], Manifest.from_bytes(bytes(row["data"]))))
    if not manifests:
        raise _nothing(checkpoint, "no join of TriJoin SQL has kept anything in it")
    keys = slot_keys(max(sum(entry[1:]) for _, _, manifest in manifests for entry in manifest.layouts.entries))
    found = sorted((operator, keys.index(slot), manifest) for operator, slot, manifest in manifests)
    stores = [
        _store(operator, slot, name, chunks)
        for operator, slot, manifest in found
        for name, chunks in manifest.chunks.items()
    ]
    # A manifest is written when something changes, so it may be older than the last micro-batch.
    manifests.sort(key=lambda found: found[2].batch)
    lines = {operator: tuple(manifest.fingerprint.splitlines()) for operator, _, manifest in manifests}
    layouts = {operator: manifest.layouts.entries for operator, _, manifest in manifests}
    moment = _time(watermark * 1000) if watermark else None
    return CheckpointState(batch, moment, lines, layouts, tuple(stores))


def _last_commit(checkpoint: Path) -> tuple[int, int]:
    """Return the number of the last committed micro-batch, and the watermark after it in milliseconds."""
    numbers = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*") if path.name.isdigit()]
    if not numbers:
        raise _nothing(checkpoint, "its query has committed no micro-batch")
    path = checkpoint / "commits" / str(max(numbers))
    _, _, body = path.read_text(encoding="utf-8").partition("\n")  # the first line is the format's version
    try:
        return max(numbers), int(json.loads(body)["nextBatchWatermarkMs"])
    except (ValueError, LookupError, TypeError) as error:
        raise ValueError(f"commits/{path.name} is not readable: {error}") from None


def _operators(spark: SparkSession, checkpoint: Path) -> list[int]:
    from ..operators.state.manifest import STATE

    bare = [path.name for path in (checkpoint / "state").glob("[0-9]*") if not (path / "_metadata").is_dir()]
    if bare:
        raise FileNotFoundError(f"state/{min(bare)}/_metadata is missing")
    found = []
    for row in spark.read.format("state-metadata").load(str(checkpoint)).collect():
        variables = json.loads(row["operatorProperties"] or "{}").get("stateVariables", [])
        names = {variable["stateName"] for variable in variables}
        if str(row["operatorName"]).startswith(_OPERATOR) and STATE in names:
            found.append(int(row["operatorId"]))
    return sorted(set(found))


def _store(operator: int, slot: int, name: str, chunks: list[Any]) -> StoreState:
    oldest = [chunk.oldest for chunk in chunks if chunk.oldest is not None]
    newest = [chunk.newest for chunk in chunks if chunk.newest is not None]
    return StoreState(
        operator,
        slot,
        name,
        len(chunks),
        sum(chunk.rows for chunk in chunks),
        sum(chunk.size for chunk in chunks),
        _time(min(oldest)) if oldest else None,
        _time(max(newest)) if newest else None,
    )


def _time(micros: int) -> str:
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=micros)
    return moment.isoformat()


def state(
    checkpoint: Annotated[
        Path, typer.Argument(metavar="CHECKPOINT", help="The folder that a query's checkpointLocation names.")
    ],
    output: Annotated[Literal["text", "json"], typer.Option("--format", help="On stdout.")] = "text",
) -> None:
    """Show what a stopped query keeps."""
    from pyspark.sql import SparkSession

    from ..spark.config import configure
    from ..spark.quiet import quiet_jvm, quiet_python

    if not checkpoint.is_dir():
        why = "it is a file, not a folder" if checkpoint.exists() else "there is no such folder"
        raise _nothing(checkpoint, why)
    builder = SparkSession.builder.appName("trijoin-sql state").master("local[2]")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    with quiet_python(), quiet_jvm():
        spark = configure(builder).getOrCreate()
        try:
            spark.sparkContext.setLogLevel("OFF")
            found = read_state(spark, checkpoint.absolute())
        finally:
            spark.stop()
    if output == "json":
        typer.echo(json.dumps(asdict(found)))
        return
    report(found, Console(highlight=False, width=None if sys.stdout.isatty() else 140))


def report(found: CheckpointState, console: Console) -> None:
    """Print the contents of a checkpoint; operators of one join are printed together."""
    console.print(f"batch {found.batch}, watermark {found.watermark or 'none'}")
    joins: dict[tuple[str, ...], list[int]] = {}
    for operator, lines in sorted(found.fingerprints.items()):
        joins.setdefault(lines, []).append(operator)
    for lines, operators in joins.items():
        if len(joins) > 1:
            console.print(f"operator {', '.join(map(str, operators))}:")
        for line in lines:
            console.print(line, markup=False)
    for operator, layouts in found.layouts.items():
        told = ", ".join(f"{units} from batch {first}" for first, units, *_ in layouts)
        console.print(f"units of operator {operator}: {told}")
    console.print(_table(found))


def _table(found: CheckpointState) -> Table:
    table = Table()
    for heading in ("operator", "slot", "store"):
        table.add_column(heading)
    for heading in ("chunks", "rows", "bytes", "oldest", "newest"):
        table.add_column(heading, justify="right")
    for one in found.stores:
        counts = (f"{one.chunks:,}", f"{one.rows:,}", f"{one.size:,}")
        table.add_row(str(one.operator), str(one.slot), one.store, *counts, one.oldest or "", one.newest or "")
    return table
