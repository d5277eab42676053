"""A join node becomes a DataFrame: inputs with their keys, dispatch, the stages of the scheme, typed output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)
from pyspark.sql.types import StructField

from ...errors import InvalidHintError, PlanError, UnsupportedQueryError
from ...rewriter.plan.comparison import OF_LIBRARY
from ...rewriter.plan.grid import goes_by_key, is_elastic
from ...rewriter.plan.nodes import JoinNode, source_conditions, source_scan
from ...rewriter.plan.schemes import RECORDS
from ...rewriter.plan.trees import leaves
from ..checks import EdgeSpec
from ..schemes import SCHEMES
from ..spec import Branch, JoinSpec, Options, StreamSpec
from ..task.dispatch import COUNTED, PACKED_SCHEMA
from ..task.outputs import COUNTERS, unpack
from ..task.processor import JoinProcessor
from ..task.reports import Reports, accumulator
from ..task.stage import Stage
from ..task.table_join import TableJoin
from . import aggregation as aggregation_
from .cells import Grid, lay_out, lay_out_by_key, lay_out_by_range
from .compiling import Compiling
from .edges import compile_branch, compile_closest, compile_edge
from .fingerprint import fingerprint
from .inputs import Input, read_inputs
from .lifetimes import bind
from .packing import ROUTE, LateSource, Packed, dispatch, pack_streams
from .session_settings import settings_of_inputs
from .travel_types import CHAR, arrow_type, from_wire, is_plain, of_library, quoted, wire_type
from .watermarks import DELAY

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
    late
        Where its late rows are, if they can be asked for.
    again
        What it is compiled from, for who compiles it once more: what its texts mean may have changed by then.
    """

    frame: DataFrame
    spec: JoinSpec
    late: tuple[LateSource, ...] = ()
    again: Again | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """A join node that was compiled, with its inputs as Spark read them then."""

    compiling: Compiling
    node: JoinNode
    inputs: Mapping[str, Input]

    def grid(self, cells: int) -> tuple[int, ...]:
        """Return how many cells there are along each dimension of a grid of so many."""
        return lay_out(self.node, {alias: side.anew() for alias, side in self.inputs.items()}, cells).shares


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
    fields
        What the output columns that are columns of inputs are there: Spark compares CHAR and VARCHAR by metadata, and
        a type of a library has only its own name.
    """

    spec: JoinSpec
    packed: tuple[Packed, ...]
    types: dict[str, str]
    in_units: bool
    fields: dict[str, StructField]

    @property
    def frames(self) -> list[DataFrame]:
        """By rank: the packed rows of its inputs, each read alone."""
        return [one.alone for one in self.packed]

    def typed(self, frame: DataFrame) -> DataFrame:
        """Return results as they come from workers with their types."""
        found = []
        for name in self.spec.output:
            column, field = from_wire(F.col(quoted(name)), self.types[name]), self.fields.get(name)
            if self.types[name] == OF_LIBRARY and field is not None:
                column = of_library(column, field.dataType, frame.sparkSession)
            metadata = {CHAR: field.metadata[CHAR]} if field is not None and CHAR in field.metadata else {}
            found.append(column.alias(name, metadata=metadata))
        return frame.select(*found)


def compile_join(compiling: Compiling, node: JoinNode) -> Compiled:
    """Compile a join node; what it raises is that of `prepare`."""
    inputs = read_inputs(compiling, node)
    made = prepare(compiling, node, {alias: side.anew() for alias, side in inputs.items()})
    dispatched, late = dispatch(compiling, made.spec, made.packed)
    frame = _run(compiling, made, reduce(DataFrame.unionAll, dispatched))
    # Of its own: outputs are added to the other one, and whoever has this would keep the statement alive.
    again = Again(replace(compiling, below=dict(compiling.below)), node, inputs)
    return Compiled(_finish(node, frame, in_units=made.in_units), made.spec, late, again)


def prepare(compiling: Compiling, node: JoinNode, inputs: Mapping[str, Input]) -> Prepared:
    """Return what a join node becomes.

    Parameters
    ----------
    inputs
        Its inputs as Spark reads them. What is packed of them is noted there.

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
    hanging = {one.relation for one in node.branches}
    cores = [edge for edge in node.graph.edges if hanging.isdisjoint((edge.left, edge.right))]
    edges = [compile_edge(node, edge, inputs) for edge in cores]
    closest = None if node.closest is None else compile_closest(node.closest, edges, *inputs.values())
    branches = []
    for one in node.branches:
        branch, edge = compile_branch(node, one, inputs)
        edges.append(edge)
        branches.append(branch)
    for side in inputs.values():
        side.require_matching(one.sql for one in node.matching if side.alias in one.relations)
        for column, _ in side.outputs:
            side.pack_read("column", column)
    types: dict[str, str] = {}
    placement = _place(node, inputs, compiling.units)
    aggregation = node.aggregation
    states = {} if aggregation is None else aggregation_.output_types(node, inputs)
    in_units = aggregation is not None and aggregation_.can_reduce(aggregation, states)
    streams = tuple(_stream(node, inputs[alias], types, placement) for alias in node.graph.relations)
    spec = replace(_spec(node, streams, tuple(edges), placement, types, compiling.key(node)), closest=closest)
    spec = replace(spec, branches=tuple(branches))
    spec = replace(spec, branches=tuple(_with_time(spec, branch) for branch in branches))
    if aggregation is not None and in_units:
        spec = replace(spec, aggregate=aggregation_.aggregate_spec(aggregation, streams, states))
    packed = pack_streams(spec, inputs)
    streams = tuple(
        replace(
            stream,
            alike=packed[rank].alike,
            required=_required(inputs[stream.alias], tested=rank in spec.tested),
            types=_arrow_types(packed[rank].alone, stream) if spec.emits_unmatched else (),
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
    fields = {name: field for side in inputs.values() for name, field in side.fields()}
    return Prepared(spec, tuple(packed), types, in_units, fields)


def _with_time(spec: JoinSpec, branch: Branch) -> Branch:
    """Return a branch for which rows of a core without a time have no partner: they would never expire."""
    time = spec.streams[branch.anchor].time
    if time is None or not spec.is_alone(branch.anchor) or spec.keep_for(branch.anchor) is None:
        return branch
    return replace(branch, required=tuple(dict.fromkeys((*branch.required, time))))


def _spec(
    node: JoinNode,
    streams: tuple[StreamSpec, ...],
    edges: tuple[EdgeSpec, ...],
    placement: _Placement,
    types: dict[str, str],
    key: str,
) -> JoinSpec:
    """Return the join without its fingerprint and aggregation; the type of its result time goes to ``types``."""
    output = tuple(dict.fromkeys(name for stream in streams for _, name in stream.payload))
    if node.result_time is not None:
        timeless = next((stream.alias for stream in streams if stream.time is None), None)
        if timeless is not None and node.candidates_of:
            reason = "only Spark can evaluate a condition of a join that is not inner, on pairs of rows"
            hint = f"Compare expressions of one side each, or bound what {timeless} is joined with below."
            raise UnsupportedQueryError(f"{reason}, and the time of {timeless} lags without bound", hint)
        if timeless is not None:
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
            *(
                tuple(tuple(map(node.graph.relations.index, order)) for _, order in orders)
                for orders in (node.decision.probes, node.decision.sources)
            ),
        ),
        output=output,
        bounds=_bounds(node),
        subgroups=placement.subgroups,
        elastic=is_elastic(placement.scheme, node.decision.options.routing, node.decision.options.subgroups),
        key=key,
        result_time=node.result_time,
        held_back=node.held_back,
        behind=node.behind,
        join=node.join,
        settles=node.settles is not None,
    )


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
    dimensions = tuple((axis, column or ROUTE) for axis, column in coordinates)
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
        ROUTE,
        dimensions,
        group,
        time,
        stateful=stateful,
        reads=named[1].replace("`", "") if named else "",
        filtered=bool(source_conditions(source)),
        read_above=side.alias in node.candidates_of,
    )


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


def _run(compiling: Compiling, made: Prepared, frame: DataFrame) -> DataFrame:
    """Run the stages over what was dispatched; return the output columns with their types."""
    joined = _join_streams if any(one.source.isStreaming for one in made.packed) else _join_tables
    return made.typed(joined(compiling, made.spec, frame, [wire_type(made.types[name]) for name in made.spec.output]))


def _join_tables(compiling: Compiling, spec: JoinSpec, frame: DataFrame, kinds: list[str]) -> DataFrame:
    """Run the stages over tables. Nothing outlives them, so each is a shuffle and a function of its partitions."""
    stages = len(SCHEMES[spec.scheme].stages(spec))
    for number in range(stages):
        packed = number < stages - 1
        stage = Stage(spec, number, compiling.warm_bytes, compiling.freezes, streaming=False, packed=packed)
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
        stage = Stage(spec, number, compiling.warm_bytes, compiling.freezes, streaming=True, packed=packed)
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
