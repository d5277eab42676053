"""The slots of every scheme give what a nested loop gives, whatever the order of arrival."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain as chain_of
from itertools import combinations, permutations
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.checks import Band, Compare, EdgeSpec
from trijoin_sql.operators.results.bundle import Part
from trijoin_sql.operators.results.outcomes import Forwarded, PartialBlock, Result
from trijoin_sql.operators.schemes import SCHEMES, base, iterative
from trijoin_sql.operators.schemes.base import Work
from trijoin_sql.operators.schemes.iterative import IterativeUnit, probe_steps
from trijoin_sql.operators.schemes.routing import grid
from trijoin_sql.operators.spec import AggregateSpec, JoinSpec, Options, StateSpec, StreamSpec
from trijoin_sql.rewriter.plan.schemes import RECORDS

from .reference import batch_of, cut, nested_loop, run, streams
from .scheme_runs import COLUMNS, EDGES, KINDS, SCHEMA, assert_exact, batches_of, chain, cycle, edge, rows_of


@pytest.mark.parametrize(("hub", "units"), [(0, 1), (1, 1), (2, 1), (0, 2), (1, 3), (2, 4), (1, 7)])
def test_semi_symmetric(hub: int, units: int) -> None:
    """Six orders of arrival, one rule each: a missing rule loses rows, two for one order double them."""
    random, results = Random(100 * hub + units), 0
    for number in range(3):
        edges = chain(hub, random.sample(KINDS, 2))
        if number == 2:  # WITHIN puts a band between the ends too, which makes no cycle of the chain
            first, last = (rank for rank in range(3) if rank != hub)
            edges = (*edges, edge(first, last, "band"))
        options = Options(pairs=number == 1)
        spec = JoinSpec("j", streams(3, COLUMNS), edges, "semi_symmetric", units, hub, options)
        results += assert_exact(spec, random)
    assert results > 100


@pytest.mark.parametrize("hub", [0, 1, 2])
def test_semi_symmetric_with_an_edge_between_its_ends(hub: int) -> None:
    """WITHIN bounds every pair of a chain: the ends of a result may be further apart than each is from the hub."""
    random, results = Random(hub), 0
    for kind in ("band", "strings"):
        first, last = (rank for rank in range(3) if rank != hub)
        edges = (*chain(hub, ("band", "band")), edge(first, last, kind))
        results += assert_exact(JoinSpec("j", streams(3, COLUMNS), edges, "semi_symmetric", 3, hub), random)
    assert results > 100


@pytest.mark.parametrize("units", [1, 2, 3, 7])
def test_symmetric(units: int) -> None:
    """Cyclic joins, and chains of every hub, which are cycles with an edge that says nothing."""
    random, results = Random(units), 0
    for number in range(4):
        edges = cycle(random.sample(KINDS, 3)) if number % 2 else chain((number + units) % 3, random.sample(KINDS, 2))
        options = Options(pairs=number == 1)
        spec = JoinSpec("j", streams(3, COLUMNS), edges, "symmetric", units, None, options)
        results += assert_exact(spec, random)
    assert results > 100


def test_what_comes_in_one_micro_batch_is_joined_in_the_second_stage() -> None:
    """Else most results of long micro-batches would cross from the first one, where rows of three streams meet, too."""
    spec = JoinSpec("j", streams(3, COLUMNS), chain(1, ("nothing", "nothing")), "semi_symmetric", 1, 1)
    first, second = (stage(spec, 0) for stage in SCHEMES["semi_symmetric"].stages(spec))
    rows = {rank: batch_of(rows_of(Random(rank), 9, 0), SCHEMA) for rank in range(3)}
    assert list(first.process(Work({rank: [batch] for rank, batch in rows.items()}))) == []
    results = list(second.process(Work({rank: [batch] for rank, batch in rows.items()})))
    assert sum(len(found) for found in results if isinstance(found, Result)) == 9**3
    assert first.counters["stored"] == 9


@pytest.mark.parametrize("kind", KINDS)
def test_every_edge_kind_under_every_scheme(kind: str) -> None:
    random = Random(7)
    for scheme, edges, hub in (
        ("semi_symmetric", chain(1, (kind, kind)), 1),
        ("symmetric", cycle((kind, "band", kind)), None),
        ("non_materializing", cycle((kind, "band", kind)), None),
        ("matrix", cycle((kind, kind, "one-sided")), None),
    ):
        units = 2
        options = Options(grid=(1, 2, 1)) if scheme == "matrix" else Options()
        dimensions = {rank: ((rank, "route"),) for rank in range(3)}
        spec = JoinSpec("j", streams(3, COLUMNS, dimensions), edges, scheme, units, hub, options)
        assert_exact(spec, random, 14)
    pair = JoinSpec("j", streams(2, COLUMNS), (edge(0, 1, kind),), "biclique", 3)
    assert assert_exact(pair, random) or kind == "nothing"


@pytest.mark.parametrize("units", [1, 2, 3, 7])
def test_biclique(units: int) -> None:
    random = Random(units)
    for kind in random.sample(KINDS, 3):
        assert_exact(JoinSpec("j", streams(2, COLUMNS), (edge(0, 1, kind),), "biclique", units), random)


@pytest.mark.parametrize("units", [1, 2, 5])
def test_tree(units: int) -> None:
    """Stored intermediates, in every order of joining, of three and four streams, cyclic and not."""
    random, results = Random(units), 0
    for order in permutations(range(3)):
        edges = cycle(random.sample(KINDS, 3)) if random.random() < 0.5 else chain(order[1], random.sample(KINDS, 2))
        options = Options(order=tuple(order))
        spec = JoinSpec("j", streams(3, COLUMNS), edges, "tree", units, None, options)
        results += assert_exact(spec, random, 12)
    pairs = ((0, 1), (1, 2), (2, 3), (0, 3))
    edges = tuple(edge(*pair, random.choice(["equality", "equality and band"])) for pair in pairs)
    results += assert_exact(JoinSpec("j", streams(4, COLUMNS), edges, "tree", units), random, 12)
    assert results > 100


@pytest.mark.parametrize("units", [1, 2, 3, 5])
def test_non_materializing(units: int) -> None:
    """Chains and cycles of three streams, a star, a cycle and a clique of four, in every order of the three stages."""
    random, results = Random(units), 0
    for order in permutations(range(3)):
        edges = cycle(random.sample(KINDS, 3)) if random.random() < 0.4 else chain(order[0], random.sample(KINDS, 2))
        spec = JoinSpec("j", streams(3, COLUMNS), edges, "non_materializing", units, options=Options(order=order))
        results += assert_exact(spec, random, 12)
    square = ((0, 1), (1, 2), (2, 3), (0, 3))
    for pairs in (((0, 1), (1, 2), (1, 3)), square, (*square, (0, 2), (1, 3))):
        kinds = ["equality", "equality and band", "plane", "hashed strings"]
        edges = tuple(edge(*sorted(pair), random.choice(kinds)) for pair in pairs)
        options = Options(order=(1, *random.sample([0, 2, 3], 3)))
        spec = JoinSpec("j", streams(4, COLUMNS), edges, "non_materializing", units, options=options)
        results += assert_exact(spec, random, 12)
    assert results > 100


def test_stores_of_their_own_keep_each_row_once_and_nothing_else() -> None:
    """That is 002's point: memory is the sum of the inputs, whatever the number of units."""
    inputs = [rows_of(Random(rank), 30, 1000 * rank) for rank in range(3)]
    options = Options(order=(1, 0, 2))
    spec = JoinSpec("j", streams(3, COLUMNS), chain(1, ("band", "band")), "non_materializing", 4, options=options)
    found, stages = run(spec, batches_of([cut(Random(3), rows, 3) for rows in inputs]))
    assert found == nested_loop(spec, inputs)
    for stage, rank in zip(stages, options.order, strict=True):
        assert {name for slot in stage for name in slot.stores} == {f"s{rank}"}
        parts = [part.rows["id"].to_pylist() for slot in stage for part in slot.stores[f"s{rank}"].segments]
        assert sorted(chain_of.from_iterable(parts)) == [row["id"] for row in inputs[rank]]
        assert len(parts) > 2


def test_only_what_a_later_stage_needs_goes_on() -> None:
    """Rows that a slot stores later go on once, not to all units again; keys that nothing reads any more do not."""
    edges = chain(1, ("equality", "band"))
    spec = JoinSpec("j", streams(3, COLUMNS), edges, "non_materializing", 2, options=Options(order=(1, 0, 2)))
    first, second, _ = (stage(spec, 0) for stage in SCHEMES["non_materializing"].stages(spec))
    rows = [batch_of(rows_of(Random(rank), 40, 0), SCHEMA) for rank in range(3)]
    (whole,) = first.process(Work({1: [rows[1]]}))
    assert isinstance(whole, Forwarded)
    assert whole.rows.num_rows == 40  # they probe all of the second stage
    *found, own = first.process(Work({0: [rows[0]]}))
    assert isinstance(own, Forwarded)
    assert own.rows.column("id").equals(base.routed(spec, 0, rows[0], 0).column("id"))
    assert 0 < own.rows.num_rows < 40
    (block,) = found
    assert isinstance(block, PartialBlock)
    assert block.start == 0
    assert [part.source.schema.names for part in block.parts.values()] == [["id"], ["id", "a"]]  # type: ignore[union-attr]
    list(second.process(Work({0: [own.rows]})))
    assert second.counters["stored"] == own.rows.num_rows


@pytest.mark.parametrize(("units", "subgroups"), [(2, 2), (4, 2), (6, 3), (6, 2), (7, 7)])
def test_subgroups_of_a_common_key(units: int, subgroups: int) -> None:
    """ContRand: the key decides the subgroup, the scheme's own rule holds inside it."""
    random = Random(units)
    equal = (Compare("=", "a", "a"),)
    more = (*equal, Band("b", "b", -1, 2))
    grouped = streams(3, COLUMNS, group="a")
    for scheme, edges, hub in (
        ("symmetric", (EdgeSpec(0, 1, equal), EdgeSpec(1, 2, more), EdgeSpec(0, 2, equal)), None),
        ("semi_symmetric", (EdgeSpec(0, 1, more), EdgeSpec(1, 2, equal)), 1),
        ("semi_symmetric", (EdgeSpec(0, 1, more), EdgeSpec(0, 2, equal)), 0),
        ("non_materializing", (EdgeSpec(0, 1, more), EdgeSpec(0, 2, equal)), None),
    ):
        spec = JoinSpec("j", grouped, edges, scheme, units, hub, subgroups=subgroups)
        assert assert_exact(spec, random) > 0
    pair = JoinSpec("j", grouped[:2], (EdgeSpec(0, 1, more),), "biclique", units, subgroups=subgroups)
    assert assert_exact(pair, random) > 0


@pytest.mark.parametrize("scheme", ["tree", "symmetric", "semi_symmetric", "matrix", "non_materializing"])
@pytest.mark.parametrize("with_columns", [(2,), (0,), (0, 2), ()], ids=str)
def test_rows_without_columns_count(scheme: str, with_columns: tuple[int, ...]) -> None:
    """``SELECT t.id FROM r, s, t`` reads nothing of r and s: their rows have no columns, and join all the same."""
    inputs = tuple(
        StreamSpec(f"s{rank}", (), ("id",) if rank in with_columns else (), "route", ((rank, "route"),))
        for rank in range(3)
    )
    aggregate = AggregateSpec((), (StateSpec("count", "n"),))
    options = Options(grid=(2, 1, 1)) if scheme == "matrix" else Options()
    spec = JoinSpec("j", inputs, (), scheme, 2, 1, options, aggregate=aggregate)
    batches = [
        {rank: [batch_of([{"id": at, "route": at} for at in range(3)], {name: pa.int64() for name in names})]}
        for rank in (1, 0, 2, 1)
        for names in ([*inputs[rank].columns, "route"],)
    ]
    groups: list[pa.RecordBatch] = []
    run(spec, batches, groups=groups)
    assert sum(sum(group.column("n").to_pylist()) for group in groups) == 6 * 3 * 3


GRIDS: list[tuple[str, dict[int, tuple[tuple[int, str], ...]]]] = [
    ("1x1x1", {rank: ((rank, "route"),) for rank in range(3)}),
    ("2x1x3", {rank: ((rank, "route"),) for rank in range(3)}),
    ("7", dict.fromkeys(range(3), ((0, "a"),))),
    ("2x3", {0: ((0, "a"),), 1: ((0, "a"),), 2: ((1, "route"),)}),
    ("2x2", {0: ((0, "a"),), 1: ((0, "a"), (1, "b")), 2: ((1, "b"),)}),
]


@pytest.mark.parametrize(("shape", "dimensions"), GRIDS)
def test_matrix(shape: str, dimensions: dict[int, tuple[tuple[int, str], ...]]) -> None:
    """A result's rows agree on every coordinate, so it is made in exactly one cell: hashed, spread, and both."""
    random = Random(3)
    cells = 1
    for share in shape.split("x"):
        cells *= int(share)
    equal = (Compare("=", "a", "a"),)
    edges = {
        "7": (EdgeSpec(0, 1, equal), EdgeSpec(1, 2, (*equal, Band("b", "b", -2, 2)))),
        "2x3": (EdgeSpec(0, 1, equal), EdgeSpec(1, 2, (Compare("<", "b", "b"),))),
        "2x2": (EdgeSpec(0, 1, equal), EdgeSpec(1, 2, (Compare("=", "b", "b"),))),
    }.get(shape) or cycle(("band", "not equal", "one-sided"))
    spec = JoinSpec(
        "j",
        streams(3, COLUMNS, dimensions),
        edges,
        "matrix",
        cells,
        None,
        Options(grid=tuple(map(int, shape.split("x")))),
    )
    assert assert_exact(spec, random) > 0


def test_matrix_of_four_and_five_streams() -> None:
    """Chains, a star and a cycle of more than three streams, probed one after the other."""
    random = Random(11)
    for pairs in (((0, 1), (1, 2), (2, 3)), ((0, 1), (0, 2), (0, 3)), ((0, 1), (1, 2), (2, 3), (0, 3))):
        edges = tuple(edge(*pair, random.choice(["equality", "equality and band"])) for pair in pairs)
        dimensions = {rank: ((rank, "route"),) for rank in range(4)}
        spec = JoinSpec("j", streams(4, COLUMNS, dimensions), edges, "matrix", 4, None, Options(grid=(2, 1, 1, 2)))
        assert_exact(spec, random, 12)
    edges = tuple(edge(rank, rank + 1, "equality") for rank in range(4))
    spec = JoinSpec(
        "j", streams(5, COLUMNS, dict.fromkeys(range(5), ((0, "a"),))), edges, "matrix", 3, None, Options(grid=(3,))
    )
    assert assert_exact(spec, random, 12) > 0


def test_an_empty_stream_has_no_results_and_stores_the_others() -> None:
    """When it wakes up, everything that came before is there."""
    random = Random(2)
    late = rows_of(random, 10, 2000)
    early = [rows_of(random, 10, 1000 * rank) for rank in range(2)]
    for scheme in ("symmetric", "semi_symmetric", "non_materializing"):
        spec = JoinSpec("j", streams(3, COLUMNS), chain(1, ("band", "band")), scheme, 2, 1)
        silent, _ = run(spec, batches_of([[early[0]], [early[1]], []]))
        assert not silent
        found, _ = run(spec, batches_of([[early[0]], [early[1]], [[], [], late]]))
        assert found == nested_loop(spec, [*early, late])
        assert found


def test_every_order_of_arrival_of_three_rows() -> None:
    """One row a stream, one row a batch, every scheme: exactly one result in every order."""
    rows = [{"id": 1000 * rank, "a": 1, "b": 1, "f": 1.0, "t": "", "h": 0, "route": rank} for rank in range(3)]
    dimensions = {rank: ((rank, "route"),) for rank in range(3)}
    for order in permutations(range(3)):
        batches = [{rank: [batch_of([rows[rank]], SCHEMA)]} for rank in order]
        for scheme, options in (
            ("symmetric", Options()),
            ("semi_symmetric", Options()),
            ("non_materializing", Options()),
            ("matrix", Options(grid=(1, 1, 2))),
        ):
            for hub in range(3):
                edges = chain(hub, ("equality", "equality"))
                spec = JoinSpec("j", streams(3, COLUMNS, dimensions), edges, scheme, 2, hub, options)
                found, _ = run(spec, batches)
                assert list(found.items()) == [((0, 1000, 2000), 1)], (order, scheme, hub)


def test_each_row_is_stored_in_one_unit_of_its_group() -> None:
    """Broadcast reaches all units, storing must not: rows stored twice give results twice."""
    inputs = [rows_of(Random(rank), 30, 1000 * rank) for rank in range(3)]
    for scheme, stages in (("symmetric", (0,)), ("semi_symmetric", (0, 1, 1))):
        spec = JoinSpec("j", streams(3, COLUMNS), chain(1, ("band", "band")), scheme, 4, 1)
        _, slots = run(spec, batches_of([[rows] for rows in inputs]))
        for rank in range(3):
            stores = [slot.stores[f"s{rank}"] for slot in slots[stages[rank] if len(stages) > 1 else 0]]
            stored = [id_ for store in stores for part in store.segments for id_ in part.rows["id"].to_pylist()]
            assert sorted(stored) == [row["id"] for row in inputs[rank]]


def test_packs_are_fewer_than_pairs() -> None:
    """A hub with k members is one pack where pairs would be k."""
    inputs = [rows_of(Random(rank), 60, 1000 * rank) for rank in range(3)]
    counts = {}
    for intermediates in ("pack", "pair"):
        options = Options(pairs=intermediates == "pair")
        spec = JoinSpec("j", streams(3, COLUMNS), cycle(["band"] * 3), "symmetric", 2, None, options)
        _, (slots,) = run(spec, batches_of([cut(Random(5), rows, 3) for rows in inputs]))
        total = sum((slot.counters for slot in slots), Counter())
        counts[intermediates] = total["packs"], total["pairs"]
    assert counts["pack"][1] == counts["pair"][1] == counts["pair"][0]
    assert counts["pack"][0] < 0.5 * counts["pair"][0]


def test_a_grid_reaches_every_cell_that_a_row_belongs_to() -> None:
    """Along the dimensions that it lacks a stream is copied; negative hashes are cells too."""
    inputs = streams(2, ("a",), {0: ((0, "a"),), 1: ((1, "route"),)})
    spec = JoinSpec("j", inputs, (), "matrix", 6, None, Options(grid=(2, 3)))
    hashes = pa.array([-1, 0, 4], pa.int64())
    rows = pa.RecordBatch.from_pydict({"a": hashes, "route": hashes})
    for rank, copies in ((0, 3), (1, 2)):
        sent: dict[int, list[int]] = {}
        for cells, some in grid(spec)(rank, rows):
            sent |= dict.fromkeys(cells, list(range(3)) if some is None else some.tolist())
        for row in range(3):
            assert sum(row in rows_there for rows_there in sent.values()) == copies
        assert set(sent) <= set(range(6))


def test_iterative_probing_searches_the_most_selective_edge() -> None:
    """The order of streams is given; among the streams that are joined the one with the best index finds the rows."""
    edges = (edge(0, 1, "one-sided"), edge(1, 2, "equality"), edge(0, 2, "equality and band"))
    options = Options(grid=(1,), probes=((2, 1), (2, 0), (1, 0)))
    spec = JoinSpec("j", streams(3, COLUMNS), edges, "matrix", 1, None, options)
    assert [(step.source, step.target) for step in probe_steps(spec, 0)] == [(0, 2), (2, 1)]
    assert [(step.source, step.target) for step in probe_steps(spec, 1)] == [(1, 2), (2, 0)]
    told = replace(spec, options=replace(options, sources=((0, 0), (1, 1), (2, 2))))
    assert [(step.source, step.target) for step in probe_steps(told, 1)] == [(1, 2), (1, 0)], "as the rewriter says"


def test_rows_probe_where_counts_say_that_they_find_far_less() -> None:
    """In another order, and by another stream where its index is there; not for a little, nor against a declaration."""
    edges = tuple(edge(*pair, "band") for pair in ((0, 1), (1, 2), (0, 2)))
    options = Options(probes=((1, 2), (0, 2), (0, 1)))
    spec = JoinSpec("j", streams(3, COLUMNS), edges, "matrix", 1, None, options)
    told = replace(options, sources=((0, 0), (1, 1), (2, 2)))

    def steps(spec: JoinSpec, **found: int) -> list[tuple[int, int]]:
        unit = IterativeUnit(spec)
        for rank in range(3):
            unit.keep(rank, batch_of(rows_of(Random(rank), 5, 0), SCHEMA).select(["id", *COLUMNS]))
        for pair, matches in found.items():
            edge = " ".join(spec.streams[int(rank)].alias for rank in pair[1:])
            unit.counters.update({f"{edge} pairs": 1000, f"{edge} found": matches})
        return [(step.source, step.target) for step in unit.steps(0)]

    assert steps(spec) == steps(spec, p01=10) == steps(spec, p01=10, p02=6, p12=9) == [(0, 1), (0, 2)]
    assert steps(spec, p01=10, p02=4) == [(0, 2), (0, 1)]
    assert steps(spec, p01=10, p02=4, p12=1) == [(0, 2), (2, 1)]
    assert steps(replace(spec, options=told), p01=10, p02=4) == [(0, 1), (0, 2)]


@pytest.mark.parametrize(
    "pairs",
    [
        ((0, 1), (1, 2), (2, 3)),
        ((0, 1), (0, 2), (0, 3)),
        ((0, 1), (1, 2), (2, 3), (0, 3)),
        tuple(combinations(range(4), 2)),
    ],
)
def test_results_are_the_same_in_any_order_of_probes(
    pairs: tuple[tuple[int, int], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts of very few pairs change it from micro-batch to micro-batch."""
    monkeypatch.setattr(iterative, "_TOLD", 1)
    changed, steps_of = 0, IterativeUnit.steps

    def noted(unit: IterativeUnit, rank: int) -> tuple[iterative.Step, ...]:
        nonlocal changed
        steps = steps_of(unit, rank)
        changed += steps != unit.orders[rank]
        return steps

    monkeypatch.setattr(IterativeUnit, "steps", noted)
    random, results = Random(12), 0
    for _ in range(6):
        edges = tuple(
            edge(*pair, random.choice(["band", "equality", "one-sided", "plane", "nothing"])) for pair in pairs
        )
        dimensions = {rank: ((rank, "route"),) for rank in range(4)}
        spec = JoinSpec("j", streams(4, COLUMNS, dimensions), edges, "matrix", 2, None, Options(grid=(2, 1, 1, 1)))
        results += assert_exact(spec, random, 9)
    assert results > 0
    assert changed > 20


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_thousands_of_partial_results_with_the_same_rows(order: tuple[int, ...]) -> None:
    """Rows that several partial results have are searched for once, and sorted by radix: a wrong width loses rows."""
    random, count, keys = Random(1), 2400, 800
    inputs = [rows_of(random, count, 10_000 * rank) for rank in range(3)]
    for row in (row for rows in inputs for row in rows):
        row["a"], row["b"] = random.randrange(keys), random.randrange(keys)
    edges = (EdgeSpec(0, 1, (Compare("=", "a", "a"),)), EdgeSpec(1, 2, (Compare("=", "b", "b"),)))
    dimensions = {1: ((0, "route"),)}
    spec = JoinSpec("j", streams(3, COLUMNS, dimensions), edges, "matrix", 1, options=Options(grid=(1,)))
    found, _ = run(spec, ({rank: [batch_of(inputs[rank], SCHEMA)]} for rank in order))
    ends: list[dict[int, list[int]]] = [{}, {}]
    for rows, column, by_key in ((inputs[0], "a", ends[0]), (inputs[2], "b", ends[1])):
        for row in rows:
            by_key.setdefault(row[column], []).append(row["id"])
    wanted = Counter(
        (r, row["id"], t) for row in inputs[1] for r in ends[0].get(row["a"], ()) for t in ends[1].get(row["b"], ())
    )
    assert found == wanted
    assert len(wanted) > 10_000


def test_a_window_is_searched_only_where_there_is_nothing_better() -> None:
    """Nearly every pair of what is stored lies within it."""
    window = Band("b", "b", -60, 60, wide=True)
    edges = tuple(EdgeSpec(*pair, (*EDGES["band"], window)) for pair in ((0, 1), (1, 2)))
    spec = JoinSpec("j", streams(3, COLUMNS), (EdgeSpec(0, 2, (window,)), *edges), "tree", 1, None)
    (tree,) = SCHEMES["tree"].stages(spec)[1](spec, 0).unit.orders[1]  # type: ignore[attr-defined]
    assert (tree.plan.sort_order.low, tree.plan.wide) == ("1.a", False)


def test_every_record_of_a_scheme_has_its_module_and_every_module_a_record() -> None:
    """A scheme is found by the name that its record gives; one without a record would never be chosen."""
    assert {record.runs_as for record in RECORDS.values()} - {None} == set(SCHEMES)


def test_all_schemes_were_tested_here() -> None:
    """A new scheme needs a test of its own in this file."""
    assert set(SCHEMES) == {"symmetric", "semi_symmetric", "biclique", "matrix", "tree", "non_materializing"}


def test_the_ends_of_a_chain_do_not_overflow_behind_a_check_that_fails() -> None:
    """Spark does not evaluate a difference for pairs that an equality before it has ruled out."""
    high = (1 << 31) - 1
    ends = (Compare("=", "b", "b"), Band("a", "a", -1, 1, limits=(-high - 1, high), type_name="int"))
    row = {"id": 0, "a": high, "b": 1, "f": 0.0, "t": "", "h": 0, "route": 0}
    left, right = batch_of([row], SCHEMA), batch_of([{**row, "a": -2, "b": 2}, row], SCHEMA)
    few = base.passing(ends, Part(left, np.zeros(2, np.int64)), Part(right))
    assert few is not None
    assert few.tolist() == [1]
