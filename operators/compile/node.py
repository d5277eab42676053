"""A join node becomes a DataFrame: inputs with their keys, dispatch, the stages of the scheme, typed output."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_
from typing import Any

import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ...errors import InvalidHintError, PlanError
from ...rewriter.plan.grid import goes_by_key, is_elastic
from ...rewriter.plan.nodes import JoinNode, source_conditions, source_scan
from ...rewriter.plan.schemes import RECORDS
from ...rewriter.plan.trees import leaves
from ..checks import EdgeSpec
from ..schemes import SCHEMES
from ..spec import JoinSpec, Options, StreamSpec
from ..task.dispatch import COUNTED, PACKED_SCHEMA, Dispatcher, Reading
from ..task.outputs import COUNTERS, unpack
from ..task.processor import JoinProcessor
from ..task.reports import LateSource, LateStream, Reports, accumulator, keep_late_sources
from ..task.stage import Stage
from ..task.table_join import TableJoin
from . import aggregation as aggregation_
from .cells import Grid, lay_out, lay_out_by_key, lay_out_by_range
from .compiling import Compiling
from .edges import compile_closest, compile_edge
from .fingerprint import fingerprint
from .inputs import Input, read_inputs
from .lifetimes import bind
from .session_settings import settings_of_inputs
from .travel_types import arrow_type, from_wire, is_fixed_width, is_plain, quoted, type_names, wire_type
from .watermarks import DELAY

_ROUTE = "__route"

#: With the rank of a source's first stream: the column with the whole row as JSON, where late rows can be asked for.
_WHOLE = "__whole"

_PART = r"(?:`(?:``|[^`])+`|\w+)"
#: The name of a relation that has one.
_NAME = re.compile(rf"(?:STREAM\s+)?({_PART}(?:\.{_PART})*)", re.IGNORECASE)

#: Observed metrics: the slots' reports, as a list of JSON objects; or, where an accumulator brings these (`reports`),
#: how many packed rows the slots got.
OBSERVED, PACKED = "slots", "packed"

#: Spark's setting for how many reports of micro-batches it keeps.
_RECENT = "spark.sql.streaming.numRecentProgressUpdates"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled join node.

    Parameters
    ----------
    frame
        Its output, under the node's output names.
    spec
        What runs.
    """

    frame: DataFrame
    spec: JoinSpec


@dataclass(frozen=True, slots=True)
class Prepared:
    """A join before it is dispatched.

    Parameters
    ----------
    spec
        The join.
    packed
        By rank: what is packed of its inputs.
    types
        DDL names of the output columns.
    in_units
        Whether units aggregate.
    lengths
        Metadata of the output columns that are of type CHAR or VARCHAR: Spark compares them by it.
    """

    spec: JoinSpec
    packed: tuple[Packed, ...]
    types: dict[str, str]
    in_units: bool
    lengths: dict[str, dict[str, str]]

    @property
    def frames(self) -> list[DataFrame]:
        """By rank: the packed rows of its inputs, each read alone."""
        return [one.alone for one in self.packed]

    def typed(self, frame: DataFrame) -> DataFrame:
        """Return results as they come from workers with their types."""
        columns = {name: from_wire(F.col(quoted(name)), self.types[name]) for name in self.spec.output}
        return frame.select(*[one.alias(name, metadata=self.lengths.get(name, {})) for name, one in columns.items()])


def compile_join(compiling: Compiling, node: JoinNode) -> Compiled:
    """Compile a join node; what it raises is that of `prepare`."""
    made = prepare(compiling, node)
    frame = _run(compiling, made)
    return Compiled(_finish(node, frame, in_units=made.in_units), made.spec)


def prepare(compiling: Compiling, node: JoinNode) -> Prepared:
    """Return what a join node becomes, and its inputs.

    Raises
    ------
    InvalidHintError
        The units cannot be divided into the subgroups that a hint asks for.
    UnsupportedQueryError
        A condition needs what the join cannot do with the types that its columns have.
    NotAsPlannedError
        The kernel does not compare the types of a condition, or units cannot keep a sum of its type.
    PlanError
        The plan and Spark's schemas do not fit together: a bug of ours.
    """
    inputs = read_inputs(compiling, node)
    edges = [compile_edge(node, edge, inputs) for edge in node.graph.edges]
    closest = None if node.closest is None else compile_closest(node.closest, edges, *inputs.values())
    for side in inputs.values():
        side.require_matching()
        for column, _ in side.outputs:
            side.pack_read("column", column)
    types: dict[str, str] = {}
    placement = _place(node, inputs, compiling.units)
    aggregation = node.aggregation
    states = {} if aggregation is None else aggregation_.output_types(node, inputs)
    in_units = aggregation is not None and aggregation_.can_reduce(aggregation, states)
    streams = tuple(_stream(node, inputs[alias], types, placement) for alias in node.graph.relations)
    spec = replace(_spec(node, streams, tuple(edges), placement, types, compiling.key(node)), closest=closest)
    if aggregation is not None and in_units:
        spec = replace(spec, aggregate=aggregation_.aggregate_spec(aggregation, streams, states))
    packed = _packed_streams(spec, inputs)
    streams = tuple(
        replace(
            stream,
            alike=packed[rank].alike,
            required=_required(inputs[stream.alias], tested=rank in spec.tested),
            types=_arrow_types(packed[rank].alone, stream) if spec.speaks else (),
        )
        for rank, stream in enumerate(spec.streams)
    )
    above = dict.fromkeys(key for side in inputs.values() for key in side.above)
    spec = replace(spec, streams=streams, above=tuple(above))
    settings = settings_of_inputs(compiling.spark, inputs.values())
    stored = {one.alias: one.stored for one in packed}
    text = fingerprint(spec, node, inputs, types, stored, compiling.arguments, settings, ansi=compiling.ansi)
    if spec.held_back and getattr(compiling.spark, "_sc", None) is None:  # nobody can tell the tasks where it changed
        text += f"\nwatermark held back by: {spec.held_back} microseconds"
    spec = replace(spec, fingerprint=text)
    if spec.aggregate is not None:
        spec = replace(spec, output=spec.aggregate.names)
        types.update(states)
    in_one = len(SCHEMES[spec.scheme].stages(spec)) == 1 and all(is_plain(wire_type(types[one])) for one in spec.output)
    of_streams = any(side.frame.isStreaming for side in inputs.values())
    spec = replace(spec, fixed_width=in_one and of_streams and all(one.fixed_width for one in packed))
    lengths = {name: kind for side in inputs.values() for name, kind in side.lengths()}
    return Prepared(spec, tuple(packed), types, in_units, lengths)


def _spec(
    node: JoinNode,
    streams: tuple[StreamSpec, ...],
    edges: tuple[EdgeSpec, ...],
    placement: _Placement,
    types: dict[str, str],
    key: str,
) -> JoinSpec:
    """Return the join without its fingerprint and aggregation; the type of its result time goes to ``types``."""
    output = tuple(name for stream in streams for _, name in stream.payload)
    if node.result_time is not None:
        if any(stream.time is None for stream in streams):
            raise PlanError(f"{node.name}: results have no event time, for an input has none")
        streams = tuple(replace(stream, timed=True) for stream in streams)
        output, types[node.result_time] = (*output, node.result_time), "timestamp"
    return JoinSpec(
        node.name,
        streams,
        edges,
        placement.scheme,
        placement.units,
        hub=node.graph.relations.index(node.graph.hub) if node.graph.hub else None,
        options=Options(
            node.decision.options.pairs,
            placement.grid.shares if RECORDS[placement.scheme].in_cells and placement.grid is not None else (),
            () if placement.grid is None else placement.grid.ranges,
            leaves(node.decision.options.tree),
            tuple(tuple(map(node.graph.relations.index, order)) for _, order in node.decision.probes),
        ),
        output=output,
        bounds=_bounds(node),
        subgroups=placement.subgroups,
        elastic=is_elastic(placement.scheme, node.decision.options.routing, node.decision.options.subgroups),
        key=key,
        result_time=node.result_time,
        held_back=node.held_back,
        join=node.join,
    )


def _packed_streams(spec: JoinSpec, inputs: Mapping[str, Input]) -> list[Packed]:
    """Return what is packed of each stream."""
    found = []
    for rank, stream in enumerate(spec.streams):
        side = inputs[stream.alias]
        if stream.time is not None and spec.keep_for(rank) is not None:  # a row without a time would never expire
            side.required.setdefault(stream.time, f"{side.alias}.{side.event_time}")
        looks = SCHEMES[spec.scheme].routing.looks(spec, rank)
        found.append(_packed(side, stream, tested=rank in spec.tested, looks=looks))
    return found


@dataclass(frozen=True, slots=True)
class _Placement:
    """How a node runs: the scheme as the operators know it, its slots, and what rows are routed by."""

    scheme: str
    units: int
    subgroups: int = 1
    grid: Grid | None = None


def _place(node: JoinNode, inputs: Mapping[str, Input], default_units: int) -> _Placement:
    """Return how a node runs."""
    decision = node.decision
    units = decision.units or default_units
    options = decision.options
    record = RECORDS.get(decision.scheme or "matrix")
    if record is None or record.runs_as is None:
        raise PlanError(f"no scheme named {decision.scheme}")
    name = record.runs_as
    if units % (options.subgroups or 1):
        hint = f"ROUTING('{options.routing}', {options.subgroups})"
        raise InvalidHintError(hint, f"{units} units cannot be divided evenly into {options.subgroups} subgroups")
    if RECORDS[name].in_cells:
        grid = lay_out(node, inputs, units)
        return _Placement(name, grid.cells, 1, grid)
    if options.routing == "range":
        common: Grid | None = lay_out_by_range(node, inputs, options.subgroups or units)
    else:
        common = lay_out_by_key(node, inputs, units) if goes_by_key(name, options.routing) else None
    if common is None:
        return _Placement(name, units)
    return _Placement(name, units, options.subgroups or 0, common)


def _stream(node: JoinNode, side: Input, types: dict[str, str], placement: _Placement) -> StreamSpec:
    """Return a stream; the types of its output columns go to ``types``."""
    payload = []
    if node.aggregation is not None:
        payload = aggregation_.payload(side.alias, node.aggregation, side)
        read = {one.name: one.term.sql for one in node.aggregation.columns if one.term is not None}
        types.update({name: side.type_of("argument", read[name]) for _, name in payload})
    for column, name in side.outputs:
        payload.append((side.pack_read("column", column), name))
        types[name] = side.type_of("column", column)
    coordinates = () if placement.grid is None else placement.grid.coordinates[side.alias]
    dimensions = tuple((axis, column or _ROUTE) for axis, column in coordinates)
    group = dimensions[0][1] if placement.subgroups != 1 and dimensions else None
    time = side.pack_read("time", side.event_time) if side.event_time is not None else None
    source = next(source for source in node.sources if source_scan(source).alias == side.alias)
    scan = source_scan(source)
    stateful = time is not None and scan.stateful
    packed = tuple(side.packed)
    named = _NAME.match(scan.relation)
    return StreamSpec(
        side.alias,
        tuple(payload),
        packed,
        _ROUTE,
        dimensions,
        group,
        time,
        stateful=stateful,
        reads=named[1].replace("`", "") if named else "",
        filtered=bool(source_conditions(source)),
    )


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
        packed[_ROUTE] = route, f"route by {side.alias if side.guards() else [*side.values.values()]}"
    fixed_width = all(map(is_fixed_width, kinds[: len(side.packed)]))
    keep = reduce(and_, keeps) if keeps else None
    whole = None if stream.time is None else side.whole
    return Packed(side.alias, side.frame, packed, keep, stored, len(hashed) == len(columns), fixed_width, whole)


def _dispatched(compiling: Compiling, spec: JoinSpec, packed: Sequence[Packed]) -> list[DataFrame]:
    """Return the packed rows of each source that Spark reads; say where its late rows are."""
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
        dispatcher = Dispatcher(spec, readings, compiling.warm_bytes, compiling.liberties)
        frames.append(frame.mapInArrow(dispatcher, PACKED_SCHEMA))
    if late:
        keep_late_sources(spec.key, late)
    return frames


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


def _required(side: Input, *, tested: bool) -> tuple[tuple[str, str], ...]:
    return tuple(side.required.items()) if side.frame.isStreaming or tested else ()


def _arrow_types(frame: DataFrame, stream: StreamSpec) -> tuple[tuple[str, pa.DataType], ...]:
    """Return the Arrow types of the packed columns that results have, as they come to the units."""
    kinds = {field.name: arrow_type(field.dataType) for field in frame.schema.fields}
    return tuple((name, kinds[name]) for name in stream.listed)


def _bounds(node: JoinNode) -> tuple[tuple[int, int, int], ...]:
    """Return the closed time bounds of a node by rank."""
    rank = {alias: number for number, alias in enumerate(node.graph.relations)}
    found = []
    for bound in node.graph.time_bounds:
        if bound.upper is not None:
            found.append((rank[bound.left], rank[bound.right], bound.upper))
        if bound.lower is not None:
            found.append((rank[bound.right], rank[bound.left], -bound.lower))
    return tuple(found)


def _run(compiling: Compiling, made: Prepared) -> DataFrame:
    """Dispatch all inputs and run the stages; return the output columns with their types."""
    frame = reduce(DataFrame.unionAll, _dispatched(compiling, made.spec, made.packed))
    joined = _join_streams if any(one.source.isStreaming for one in made.packed) else _join_tables
    return made.typed(joined(compiling, made.spec, frame, [wire_type(made.types[name]) for name in made.spec.output]))


def _join_tables(compiling: Compiling, spec: JoinSpec, frame: DataFrame, kinds: list[str]) -> DataFrame:
    """Run the stages over tables. Nothing outlives them, so each is a shuffle and a function of its partitions."""
    stages = len(SCHEMES[spec.scheme].stages(spec))
    for number in range(stages):
        packed = number < stages - 1
        stage = Stage(spec, number, compiling.warm_bytes, compiling.liberties, streaming=False, packed=packed)
        schema = PACKED_SCHEMA if packed else _ddl(spec, kinds)
        frame = frame.repartition(spec.slots, "slot").mapInArrow(TableJoin(stage), schema)
    return frame


def _join_streams(compiling: Compiling, spec: JoinSpec, frame: DataFrame, kinds: list[str]) -> DataFrame:
    """Run the stages over streams, as stateful operators."""
    reports = _reports(compiling.spark, spec.key)
    in_rows = reports is None
    if not in_rows:  # the name tells whose reports a query's are; few rows pass here
        frame = frame.observe(spec.key, F.count(F.lit(1)).alias(PACKED))
    plain = all(map(is_plain, kinds))
    stages = len(SCHEMES[spec.scheme].stages(spec))
    time_mode = "EventTime" if any(stream.time for stream in spec.streams) else "None"
    for number in range(stages):
        last = number == stages - 1
        packed = not last or not plain
        schema = PACKED_SCHEMA if packed else _ddl(spec, kinds) + (f", {COUNTERS} string" if in_rows else "")
        stage = Stage(spec, number, compiling.warm_bytes, compiling.liberties, streaming=True, packed=packed)
        frame = frame.groupBy("slot").transformWithStateInPandas(
            JoinProcessor(stage, reports if last else None),
            schema,
            "Append",
            time_mode,
        )
    if in_rows:
        report = F.col(COUNTERS) if plain else F.when(F.col("kind") == COUNTED, F.col("data").cast("string"))
        frame = frame.observe(spec.key, F.collect_list(report).alias(OBSERVED)).where(report.isNull())
    else:
        bind(frame, compiling.number)
    return frame if plain else frame.mapInArrow(unpack, _ddl(spec, kinds))


def _ddl(spec: JoinSpec, kinds: list[str]) -> str:
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in zip(spec.output, kinds, strict=True))


def _reports(spark: SparkSession, key: str) -> Accumulator[Reports] | None:
    """Return what slots report to, None on Spark Connect: there a row of results has it."""
    if getattr(spark, "_sc", None) is None:
        return None
    return accumulator(spark.sparkContext, key, int(str(spark.conf.get(_RECENT))))


def _finish(node: JoinNode, frame: DataFrame, *, in_units: bool) -> DataFrame:
    """Apply what Spark has to decide, and leave the node's own columns in the node's order."""
    for residual in node.graph.residuals:
        frame = frame.where(F.expr(residual.condition.sql))
    if node.aggregation is not None:
        return frame if in_units else aggregation_.states_of_rows(frame, node.aggregation)
    names = [column.name for column in node.output] + ([node.result_time] if node.result_time else [])
    times = node.event_times if frame.isStreaming else ()
    marks: dict[str, Any] = {name: {"metadata": {DELAY: 0}} for name in times}  # the others keep what they have
    return frame.select(*[F.col(quoted(name)).alias(name, **marks.get(name, {})) for name in names])
