"""What is packed of each input, and how the dispatchers get it: a source once, for all streams that it is read for.

Where late rows can be asked for, a dispatcher's rows also have the whole row as JSON. No stream takes it: the driver
reads these rows once more (`running.late_rows`), and finds there what `LateSource` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ..schemes import SCHEMES
from ..spec import JoinSpec, StreamSpec
from ..task.dispatch import PACKED_SCHEMA, Dispatcher, Reading
from .compiling import Compiling
from .inputs import Input
from .travel_types import is_fixed_width, type_names

#: The packed column with a row's route.
ROUTE = "__route"

#: With the rank of a source's first stream: the column with the whole row as JSON.
_WHOLE = "__whole"


class LateStream(NamedTuple):
    """How the late rows of a stream are found among the rows that its dispatcher gets.

    Parameters
    ----------
    rank
        The stream's.
    time
        The column with its event time (microseconds).
    keep
        The boolean column that says which rows are its own, None for all.
    required
        The columns without which the dispatcher drops a row before it can be late.
    """

    rank: int
    time: str
    keep: str | None
    required: tuple[str, ...]


class LateSource(NamedTuple):
    """Where the late rows of a source are: the dispatcher's column with the whole row as JSON, and its streams."""

    whole: str
    streams: tuple[LateStream, ...]


def pack_streams(spec: JoinSpec, inputs: Mapping[str, Input]) -> list[Packed]:
    """Return what is packed of each stream, by rank."""
    found = []
    for rank, stream in enumerate(spec.streams):
        side = inputs[stream.alias]
        # A row without a time would never expire. One of a core of one stream has no partner, and is a result.
        if stream.time is not None and spec.keep_for(rank) is not None and not spec.is_alone(rank):
            side.required.setdefault(stream.time, f"{side.alias}.{side.event_time}")
        looks = SCHEMES[spec.scheme].routing.looks(spec, rank)
        found.append(_packed(side, stream, tested=rank in spec.tested, looks=looks))
    return found


@dataclass(frozen=True, slots=True)
class Packed:
    """What is packed of a stream.

    Parameters
    ----------
    alias
        Its alias.
    source
        What Spark reads, for it and for the inputs that are read together with it.
    columns
        By packed name: the column, and what is in it (`Input.values`).
    keep
        Which of the rows are its own and can join, None for all.
    stored
        What is stored of it, as DDL.
    alike
        Whether its route is a hash of all that is packed.
    fixed_width
        Whether each of its rows takes the same few bytes.
    whole
        The source's column with the whole row as JSON, None where nobody can ask for its late rows.
    """

    alias: str
    source: DataFrame
    columns: dict[str, tuple[Column, str]]
    keep: Column | None
    stored: str
    alike: bool
    fixed_width: bool
    whole: str | None

    @property
    def alone(self) -> DataFrame:
        """The frame of the packed columns, if nothing else is read of the source.

        One filter and one projection: Spark optimises the plan anew for every micro-batch, node by node.
        """
        frame = self.source if self.keep is None else self.source.where(self.keep)
        return frame.select(*[column.alias(name) for name, (column, _) in self.columns.items()])


def _packed(side: Input, stream: StreamSpec, *, tested: bool, looks: bool) -> Packed:
    """Return what is packed of an input: its columns, and a route where one is looked at.

    Hashing and handing over a route takes an eighth of what a row of few numbers takes.
    """
    columns = [*side.packed.values(), *side.guards()]
    kinds = type_names(side.frame.select(*[column.alias(f"c{number}") for number, column in enumerate(columns)]))
    # Guards are part of the route: so Spark has to compute them, and raises where the user's text would.
    hashed = [
        column for column, kind in zip(columns, kinds, strict=True) if "map<" not in kind and "variant" not in kind
    ]
    route = F.xxhash64(*hashed) if hashed else F.lit(0).cast("bigint")
    # Of a stream, the dispatcher drops rows that cannot join and counts them: Arrow knows how many NULLs a column has.
    drops = not side.frame.isStreaming and not tested
    keeps = [F.col(side.keep)] if side.keep is not None else []
    keeps += [side.packed[name].isNotNull() for name in side.required] if drops else []
    stored = ", ".join(f"{name} {kind}" for name, kind in zip(side.packed, kinds, strict=False))
    packed = {name: (side.packed[name], side.values[name]) for name in stream.columns}
    if looks or not stream.columns or side.guards():
        # Streams that are read together and have the same columns have the same routes, but for guards.
        packed[ROUTE] = route, f"route by {side.alias if side.guards() else [*side.values.values()]}"
    fixed_width = all(map(is_fixed_width, kinds[: len(side.packed)]))
    keep = reduce(and_, keeps) if keeps else None
    whole = None if stream.time is None else side.whole
    return Packed(side.alias, side.frame, packed, keep, stored, len(hashed) == len(columns), fixed_width, whole)


def dispatch(
    compiling: Compiling, spec: JoinSpec, packed: Sequence[Packed]
) -> tuple[list[DataFrame], tuple[LateSource, ...]]:
    """Return the packed rows of each source that Spark reads, and where late rows are, if they can be asked for."""
    frames, late = [], []
    for source in {id(one.source): one.source for one in packed}.values():
        ranks = [rank for rank, one in enumerate(packed) if one.source is source]
        whole = packed[ranks[0]].whole
        if len(ranks) == 1 and whole is None:
            frame, readings = packed[ranks[0]].alone, [Reading(ranks[0])]
        else:
            frame, readings = _together(source, {rank: packed[rank] for rank in ranks}, whole)
        if whole is not None:
            late.append(LateSource(f"{_WHOLE}{ranks[0]}", tuple(_late_stream(spec, reading) for reading in readings)))
        dispatcher = Dispatcher(spec, readings, compiling.warm_bytes, compiling.freezes)
        frames.append(frame.mapInArrow(dispatcher, PACKED_SCHEMA))
    return frames, tuple(late)


def _late_stream(spec: JoinSpec, reading: Reading) -> LateStream:
    """Return how a stream's late rows are found among the rows that its dispatcher gets."""
    stream, columns = spec.streams[reading.rank], dict(reading.columns or ())
    required = () if reading.rank in spec.tested else tuple(columns[name] for name, _ in stream.required)
    return LateStream(reading.rank, columns[str(stream.time)], reading.keep, required)


def _together(source: DataFrame, packed: Mapping[int, Packed], whole: str | None) -> tuple[DataFrame, list[Reading]]:
    """Return a frame with what is packed of some streams, each column once, and what each stream takes of it.

    The column with the whole row, which no stream takes, is there for who reads the frame once more for late rows.
    """
    columns: dict[str, Column] = {}
    names: dict[str, str] = {}
    readings = []
    for rank, one in packed.items():
        taken = []
        for name, (column, value) in one.columns.items():
            if value not in names:
                names[value] = f"p{len(columns)}"
                columns[names[value]] = column
            taken.append((name, names[value]))
        keep = None if one.keep is None else f"keep{rank}"
        readings.append(Reading(rank, tuple(taken), keep))
    keeps = {f"keep{rank}": one.keep for rank, one in packed.items() if one.keep is not None}
    frame = source.where(reduce(or_, keeps.values())) if len(keeps) == len(packed) else source
    columns |= keeps
    if whole is not None:
        columns[f"{_WHOLE}{min(packed)}"] = F.col(whole)
    return frame.select(*[column.alias(name) for name, column in columns.items()]), readings
