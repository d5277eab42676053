"""A workload under a scheme in any number of units, without Spark: predicted, and counted.

What is planned is what the rewriter plans, with the declared rates and the measured selectivities of the data, as a
user declares them (``spark.trijoin.rate.*``, ``SELECTIVITY(r, s, 0.001)``). What runs is what its decision compiles
to: the same router, the same slots. Only Spark's shuffle, its state store and its clock are missing. An operator tree
is several joins: the lower ones' results are inputs of the upper ones.

Streams first get a history, then the micro-batches that are counted: so the state hardly changes while it is, and a
prediction, which is one for a second at some size of the state, can be compared.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from trijoin_sql.operators.checks import EdgeSpec
from trijoin_sql.operators.compile.compiling import Compiling
from trijoin_sql.operators.compile.inputs import read_inputs
from trijoin_sql.operators.compile.node import Prepared, prepare
from trijoin_sql.operators.kernels.order_keys import values
from trijoin_sql.operators.results.bundle import Bundle
from trijoin_sql.operators.results.outcomes import Outcome, Result, listed
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.schemes.base import kept, mine
from trijoin_sql.operators.spec import JoinSpec
from trijoin_sql.operators.store.index import Probe
from trijoin_sql.operators.store.probe_plan import plan_probe
from trijoin_sql.operators.store.store import Store
from trijoin_sql.operators.task.dispatch import AlikeRows
from trijoin_sql.operators.task.outputs import named
from trijoin_sql.rewriter.options import CostDefaults, Settings
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.nodes import JoinNode, source_scan, walk
from trijoin_sql.rewriter.plan.schemes import RECORDS
from trijoin_sql.rewriter.sql.declarations import read_script

from .local_columns import LocalFrame, local_columns
from .local_join import LocalJoin
from .workloads import DELAY, EVENT_TIME, WINDOW, Workload, columns, declarations, query, table

#: What is predicted and counted, by the name of the counter.
COUNTED = ("rows_in", "state_rows", "comparisons", "results")

#: From so many units on only the routing is simulated: which rows are sent where, and stored.
MOST_SLOTS = 64

#: Micro-batches of the history, of a stream without and with a window; the ones that are counted, and which part of the
#: history each of them brings. (Of larger ones many rows go into a pack once that would go into several.)
HISTORY, IN_WINDOW, MEASURED, PART = 8, 32, 8, 64


@dataclass(frozen=True, slots=True)
class Data:
    """The streams of a workload.

    Parameters
    ----------
    workload
        What they are for.
    rows
        Rows of the largest stream before those that are counted; with a window, half of them are in it. The others have
        the workload's shares of it.
    more
        Rows of it that are counted.
    tables
        By stream.
    """

    workload: Workload
    rows: int
    more: int
    tables: dict[str, LocalFrame]

    @classmethod
    def of(cls, workload: Workload, rows: int, seed: int = 1) -> Data:
        """Generate the data of a workload: the rows that ``python -m tests.bench`` gives to every engine."""
        more = MEASURED * max(rows // PART, 1)
        # Keys of streams of several sizes refer to one another, so the counted rows have to be among them.
        domain, tables = workload.domain(rows + more if workload.shares else rows), {}
        for number, (stream, own) in enumerate(zip(workload.streams, workload.sizes(rows + more), strict=True)):
            made = table(workload, number, np.random.default_rng([seed, number]), 0, own, domain)
            frame = LocalFrame(made).sql(f"SELECT {', '.join(columns(workload, rows))} FROM t")
            tables[stream] = LocalFrame(frame.rows, (EVENT_TIME,) if workload.windowed else ())
        return cls(workload, rows, more, tables)

    def part(self, stream: str) -> float:
        """Return how many rows a stream has for each one of the largest."""
        return float(self.tables[stream].rows.num_rows / (self.rows + self.more))

    def cuts(self, part: float = 1.0) -> list[tuple[int, int]]:
        """Return the first row and the last of each micro-batch, the last `MEASURED` of which are counted."""
        history = np.linspace(0, self.rows, (IN_WINDOW if self.workload.windowed else HISTORY) + 1).astype(int)
        measured = np.linspace(self.rows, self.rows + self.more, MEASURED + 1).astype(int)
        ends = np.round(np.append(history, measured[1:]) * part).astype(int)
        return list(pairwise(ends.tolist()))

    def watermarks(self) -> list[int]:
        """Return the watermark (microseconds) that each micro-batch leaves, none without a window."""
        if not self.workload.windowed:
            return []
        times = [values(frame.rows.column(EVENT_TIME).combine_chunks()) for frame in self.tables.values()]
        late = int(DELAY.split()[0]) * 1_000_000
        return [min(int(one[:last].max()) for one in times) - late for _, last in self.cuts()]

    @property
    def streams(self) -> float:
        """How many streams there are, a smaller one for its part."""
        return sum(map(self.part, self.tables))

    @property
    def kept(self) -> float:
        """How many rows of the largest stream can still be joined, in the midst of those that are counted."""
        return self.rows / 2 if self.workload.windowed else self.rows + self.more / 2

    @property
    def seconds(self) -> float:
        """How long the counted rows take to come, in seconds of event time; of a stream without one, a second."""
        return self.more * 2 * WINDOW / self.rows if self.workload.windowed else 1.0


#: By micro-batch: the first row of a stream and the last.
Cuts = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Join:
    """One join of a plan.

    Parameters
    ----------
    spec
        What runs.
    frames
        By rank: the packed rows of each input.
    cuts
        By rank: which of them come in each micro-batch.
    """

    spec: JoinSpec
    frames: list[pa.RecordBatch]
    cuts: list[Cuts]

    def batch(self, number: int) -> dict[int, list[pa.RecordBatch]]:
        """Return the rows of a micro-batch by rank."""
        ends = [cuts[number] for cuts in self.cuts]
        return {rank: [self.frames[rank].slice(first, last - first)] for rank, (first, last) in enumerate(ends)}


@dataclass(frozen=True, slots=True)
class Planned:
    """A workload under a scheme.

    Parameters
    ----------
    group
        The join group, with the decision on it.
    joins
        What it becomes, the inputs of a join before it: one join, or those of an operator tree.
    """

    group: JoinNode
    joins: tuple[Join, ...]

    @property
    def root(self) -> Join:
        """The join whose results are the query's."""
        return self.joins[-1]

    def predicted(self, data: Data) -> Counter[str]:
        """Return what the plan says of the rows that are counted."""
        (cost,) = (one.cost for one in self.group.decision.alternatives if one.chosen)
        results = dict(self.group.decision.expected)["results a second"]
        rows = data.seconds
        return Counter(
            {
                "rows_in": cost.network * rows,
                "state_rows": cost.memory,
                "comparisons": cost.cpu * rows,
                "results": results * rows,
            }
        )


@dataclass(frozen=True)
class _Compiling(Compiling):
    """A statement that is compiled over local data."""

    tables: Mapping[str, LocalFrame] = dataclasses.field(default_factory=dict)

    def run_sql(self, text: str) -> Any:
        """Read an input."""
        return self.tables[text.rpartition(" AS ")[0].rpartition(" FROM ")[2]].sql(text)


def plan(data: Data, engine: str, units: int, costs: CostDefaults | None = None, shares: str = "") -> Planned:
    """Plan and compile a workload.

    Parameters
    ----------
    data
        The workload and its rows.
    engine
        ``SCHEME[/INTERMEDIATES][@ROUTING[:SUBGROUPS]]``.
    units
        Units of a stream's group, or cells.
    costs
        The assumptions of the cost model; those of a session without settings if None.
    shares
        Hints that declare the selectivities of the data (`measured_shares`).
    """
    catalog, _ = read_script(declarations(data.workload))
    for name in data.workload.streams:
        catalog = catalog.with_rate(name, data.part(name) * data.more / data.seconds)
    settings = Settings(units=units, costs=costs or CostDefaults())
    sql = query(data.workload, engine)
    found = rewrite(sql.replace("*/", f"{shares} */", 1) if shares else sql, catalog, settings)
    (group,) = (group for group in found.groups if isinstance(group, JoinNode))
    assert found.plan is not None
    tables, cuts = dict(data.tables), {name: data.cuts(data.part(name)) for name in data.tables}
    *below, root = (node for node in reversed(list(walk(found.plan))) if isinstance(node, JoinNode))
    joins = []
    for node in below:
        joins.append(_join(node, units, tables, cuts)[0])
        # The rows are the same in any number of units. One takes the least time.
        alone = dataclasses.replace(node, decision=dataclasses.replace(node.decision, units=1))
        tables[node.name], cuts[node.name] = _results(*_join(alone, 1, tables, cuts), data)
    return Planned(group, (*joins, _join(root, units, tables, cuts)[0]))


def _join(
    node: JoinNode, units: int, tables: Mapping[str, LocalFrame], cuts: Mapping[str, Cuts]
) -> tuple[Join, Prepared]:
    """Compile a join node over its inputs, which are given by relation."""
    compiling = _Compiling(None, {}, units=units, tables=tables)  # type: ignore[arg-type]
    with local_columns():
        made = prepare(compiling, node, read_inputs(compiling, node))
    frames = []
    for rank, stream in enumerate(made.spec.streams):
        rows = pa.RecordBatch.from_arrays(*_columns(made.frames[rank]))
        if SCHEMES[made.spec.scheme].routing.spreads(made.spec, rank):
            rows = AlikeRows().spread(rows, stream.route)
        frames.append(rows)
    return Join(made.spec, frames, [cuts[source_scan(source).relation] for source in node.sources]), made


def _results(join: Join, made: Prepared, data: Data) -> tuple[LocalFrame, Cuts]:
    """Run a join; return its results, and which of them each micro-batch gives."""
    columns = [stream.listed for stream in join.spec.streams]
    found, ends = [], [0]
    for items in _batches(LocalJoin(join.spec), join, data):
        for item in items:
            results = listed(item, columns) if isinstance(item, Bundle) else [item]
            found += [named(join.spec, one) for one in results if isinstance(one, Result)]
        ends.append(sum(map(len, found)))
    with local_columns():
        frame: Any = made.typed(LocalFrame(pa.Table.from_batches(found)))  # type: ignore[arg-type]
    times = () if join.spec.result_time is None else (join.spec.result_time,)
    return LocalFrame(frame.rows, times), list(pairwise(ends))


def _batches(local: LocalJoin, join: Join, data: Data) -> Iterator[Iterator[Outcome]]:
    """Yield what each micro-batch gives; take that before the next one."""
    watermarks = data.watermarks()
    for number in range(len(data.cuts())):
        yield local.batch(join.batch(number))
        if number and watermarks:  # by the watermark that the micro-batch before has left, as in Spark
            local.expire(watermarks[number - 1])


def _columns(frame: Any) -> tuple[list[pa.Array], list[str]]:
    rows: pa.Table = frame.rows
    return [column.combine_chunks() for column in rows.columns], rows.column_names


def measured_costs(data: Data) -> CostDefaults:
    """Return the cost model's assumptions, with the history of the data.

    What is kept of a stream without a window is its history so far, which a user knows.
    """
    return CostDefaults(keep_for=data.kept / (data.more / data.seconds))


def measured_shares(data: Data) -> str:
    """Return hints with the selectivities that the data has between each two streams, as a user declares them.

    Conditions on the time by which rows expire are left out: nearly all that is kept fulfils them.
    """
    planned = plan(data, data.workload.schemes[0], 1)
    hints = []
    for edge in planned.group.graph.edges:
        if edge.counts:
            ranks = (planned.group.graph.relations.index(one) for one in (edge.left, edge.right))
            share = _share(planned.root, planned.root.spec.edge(*ranks))
            hints.append(f"SELECTIVITY({edge.left}, {edge.right}, {share})")
    return ", ".join(hints)


def _share(join: Join, edge: EdgeSpec) -> float:
    """Return the share of the pairs of two streams that fulfil an edge's checks."""
    checks = tuple(one for one in edge.checks if not getattr(one, "wide", False))
    ways = plan_probe(dataclasses.replace(edge, checks=checks))
    left, right = (kept(join.spec, rank, join.frames[rank]) for rank in (edge.left, edge.right))
    store = Store("", ways.sort_orders)
    store.append(right)
    pairs = sum(len(mine) for mine, _, _ in store.probe(Probe(ways, left)))
    return float(max(pairs, 1) / (left.num_rows * right.num_rows))


def count(planned: Planned, data: Data) -> list[Counter[str]]:
    """Run a workload, and return by slot what the micro-batches that are counted have added, and the mean state.

    What the whole run has added is there under ``whole_`` and the name. Slot i of a plan is that of each of its joins;
    results are those of the last one.

    Beyond `MOST_SLOTS` units rows are routed, and nothing else: ``rows_in`` are those of the first stage of each join,
    and ``state_rows`` the rows of its inputs.
    """
    found = [Counter[str]() for _ in range(planned.root.spec.slots)]
    for join in planned.joins:
        counted = _routed(join, data) if join.spec.slots > MOST_SLOTS else _counted(join, data)
        for slot, one in zip(found, counted, strict=True):
            slot.update({name: number for name, number in one.items() if join is planned.root or "results" not in name})
    return found


def _counted(join: Join, data: Data) -> list[Counter[str]]:
    local = LocalJoin(join.spec, counts=True)
    before: list[Counter[str]] = []
    for number, items in enumerate(_batches(local, join, data)):
        if number == len(data.cuts()) - MEASURED:
            before = local.counters()
        for _ in items:
            pass
    found = local.counters()
    for one, earlier in zip(found, before, strict=True):
        for name in list(one):
            if name.startswith("state_"):
                one[name] = (one[name] + earlier[name]) // 2
            else:
                one[f"whole_{name}"] = one[name]
                one[name] -= earlier[name]
    return found


def _routed(join: Join, data: Data) -> list[Counter[str]]:
    """Route rows, and return by slot how many it gets, and how many it keeps amid those that are counted."""
    spec, batches = join.spec, data.cuts()
    route = SCHEMES[spec.scheme].routing.router(spec)
    amid = len(batches) - MEASURED // 2
    oldest = sum(last <= batches[amid][0] - data.kept for _, last in batches)
    found = [Counter[str]() for _ in range(spec.slots)]

    def received(rank: int, first: int, last: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        cuts = join.cuts[rank]
        piece = join.frames[rank].slice(cuts[first][0], cuts[last - 1][1] - cuts[first][0])
        for slots, some in route(rank, piece):
            rows = piece if some is None else piece.take(pa.array(some))
            yield from ((slot, rows) for slot in slots)

    for rank in range(len(join.frames)):
        for slot, rows in received(rank, 0, len(batches)):
            found[slot]["whole_rows_in"] += rows.num_rows
        for slot, rows in received(rank, len(batches) - MEASURED, len(batches)):
            found[slot]["rows_in"] += rows.num_rows
        for slot, rows in received(rank, oldest, amid):
            cell = RECORDS[spec.scheme].in_cells
            found[slot]["state_rows"] += rows.num_rows if cell else len(mine(spec, rank, rows, slot))
    return found


def balance(slots: list[Counter[str]], name: str) -> float:
    """Return the most of a slot to the mean."""
    counted = [one[name] for one in slots]
    mean = sum(counted) / len(counted)
    return max(counted) / mean if mean else 1.0


def totals(slots: list[Counter[str]]) -> Counter[str]:
    """Return what all slots have counted."""
    return sum(slots, Counter())
