"""What schemes store, send and put out is cut into pieces of bounded size, and none is lost or doubled."""

from __future__ import annotations

from random import Random

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.results.bundle import Part
from trijoin_sql.operators.results.outcomes import RESULT_BYTES, Pack, PartialBlock, joined
from trijoin_sql.operators.schemes import SCHEMES, base, non_materializing, semi_symmetric
from trijoin_sql.operators.schemes.base import Work
from trijoin_sql.operators.spec import (
    AggregateSpec,
    JoinSpec,
    Options,
    StateSpec,
)
from trijoin_sql.operators.store.store import Store

from .reference import batch_of, cut, nested_loop, run, streams
from .scheme_runs import COLUMNS, SCHEMA, assert_exact, batches_of, chain, cycle, rows_of


@pytest.mark.parametrize("scheme", ["symmetric", "semi_symmetric"])
def test_long_lists_are_cut(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub with millions of members was one value in the state store, and all packs of a micro-batch were one."""
    monkeypatch.setattr(base, "MOST_MEMBERS", 3)
    monkeypatch.setattr(semi_symmetric, "PACK_BYTES", 48)
    random, results = Random(7), 0
    for kinds in (("equality", "nothing"), ("not equal", "band"), ("nothing", "two-sided")):
        spec = JoinSpec("j", streams(3, COLUMNS), chain(1, kinds), scheme, 2, 1)
        results += assert_exact(spec, random)
    assert results > 100


def test_a_list_goes_on_in_another_row_of_its_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MOST_MEMBERS", 3)
    rows = batch_of(rows_of(Random(1), 4, 0), SCHEMA)
    at, members = np.array([2, 0, 2, 3, 2, 2, 2, 2, 0]), np.arange(9)
    hubs = base.pack(rows, at, members)
    lists = hubs.column(base.MEMBERS).to_pylist()
    assert hubs.column("id").to_pylist() == [0, 2, 2, 3]
    assert lists == [[1, 8], [0, 2, 4], [5, 6, 7], [3]]
    assert base.pack(rows, at[:0], members[:0]).num_rows == 0


def test_packs_that_cross_are_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark takes each as one value, and needs several copies of it on its heap."""
    monkeypatch.setattr(semi_symmetric, "PACK_BYTES", 4096)
    monkeypatch.setattr(base, "MOST_MEMBERS", 100)
    spec = JoinSpec("j", streams(3, COLUMNS), chain(1, ("nothing", "nothing")), "semi_symmetric", 1, 1)
    slot = SCHEMES["semi_symmetric"].stages(spec)[0](spec, 0)
    works = [Work({rank: [batch_of(rows_of(Random(rank), 60, 0), SCHEMA)]}) for rank in range(2)]
    packs = [found for work in works for found in slot.process(work) if isinstance(found, Pack)]
    assert len(packs) > 3
    assert all(found.hubs.nbytes + found.members.nbytes <= 2 * 4096 or found.hubs.num_rows == 1 for found in packs)
    assert sum(len(members) for found in packs for members in found.hubs.column(base.MEMBERS).to_pylist()) == 3600


@pytest.mark.parametrize(("most", "together"), [(1, 1), (150, 1), (1000, 7), (4000, 1000)])
def test_partial_results_that_cross_are_of_bounded_size(
    most: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few at a time are put together, many are cut: each block is one value to Spark."""
    monkeypatch.setattr(non_materializing, "PACKED_BYTES", most)
    monkeypatch.setattr(non_materializing, "TOGETHER", together)
    random, results = Random(most), 0
    for kinds in (("equality", "nothing"), ("not equal", "band"), ("strings", "two-sided")):
        spec = JoinSpec("j", streams(3, COLUMNS), chain(0, kinds), "non_materializing", 2)
        results += assert_exact(spec, random)
        slot = SCHEMES["non_materializing"].stages(spec)[0](spec, 0)
        found = [
            one
            for rank in range(3)
            for one in slot.process(Work({rank: [batch_of(rows_of(Random(rank), 60, 0), SCHEMA)]}))
            if isinstance(one, PartialBlock)
        ]
        assert all(block.nbytes <= 2 * most or len(block) == 1 for block in found)
        assert len(found) > 3 or most > 1000
    assert results > 100


@pytest.mark.parametrize("aggregated", [False, True])
@pytest.mark.parametrize("scheme", ["semi_symmetric", "symmetric", "matrix", "tree", "biclique", "non_materializing"])
def test_a_rank_in_pieces(scheme: str, aggregated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of gigabytes is one micro-batch, and more than Arrow puts together: pieces of a rank never meet."""
    monkeypatch.setattr(base, "ARRIVING_BYTES", 700)
    random = Random(scheme)
    count = 2 if scheme == "biclique" else 3
    aggregate = AggregateSpec((), (StateSpec("count", "n"),)) if aggregated else None
    grid_ = Options(grid=(1, 2, 1))
    for number, intermediates in enumerate(("pack", "pair")):
        edges = cycle(("band", "equality", "one-sided")) if number else chain(1, ("band", "equality"))
        if count == 2:
            edges = edges[:1]
        elif scheme == "semi_symmetric":
            edges = edges[:2]
        options = grid_ if scheme == "matrix" else Options(pairs=intermediates == "pair")
        dimensions = {rank: ((rank, "route"),) for rank in range(3)}
        spec = JoinSpec("j", streams(count, COLUMNS, dimensions), edges, scheme, 2, 1, options, aggregate=aggregate)
        inputs = [rows_of(random, 40, 1000 * rank) for rank in range(count)]
        batches = batches_of([cut(random, rows, 2) for rows in inputs], pieces=6)
        groups: list[pa.RecordBatch] = []
        found, stages = run(spec, batches, groups=groups)
        wanted = nested_loop(spec, inputs)
        assert max(store.next_ids[0] for slot in stages[0] for store in slot.stores.values()) > 15
        if aggregated:
            assert sum(sum(group.column("n").to_pylist()) for group in groups) == sum(wanted.values()) > 0
        else:
            assert found == wanted
            assert found


def test_rows_are_put_together_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches as one, for each costs a probe; none is lost, none larger than allowed unless it came so."""
    monkeypatch.setattr(base, "ARRIVING_BYTES", 800)
    sizes = [10, 20, 30, 40, 0, 1, 300, 5, 0]
    batches = [pa.RecordBatch.from_pydict({"id": pa.array(range(size), pa.int64())}) for size in sizes]
    assert [rows.num_rows for rows in base.gathered(batches)] == [100, 1, 300, 5]
    assert [rows.num_rows for rows in base.gathered(batches[4:5])] == [0]
    assert list(base.gathered([])) == []


@pytest.mark.parametrize("stored", [False, True])
def test_a_long_text_that_many_results_have_is_put_together_in_pieces(stored: bool) -> None:
    """By the mean of its stream a text of 100 kB was a few bytes, and 10,000 results with it a gigabyte at once."""
    rows = pa.RecordBatch.from_pydict({"id": range(40_001), "a": ["x" * 100_000, *[""] * 40_000]})
    store = Store("r", [])
    for first in range(0, rows.num_rows, 10_000):
        store.append(rows.slice(first, 10_000))
    ids = np.array([0] * 1000 + list(range(1, 3000)), np.int64)
    others = pa.RecordBatch.from_pydict({"n": range(len(ids))})
    parts = {0: Part(store if stored else rows, ids), 1: Part(others)}
    results = list(joined(parts, [["a", "id"], ["n"]]))
    assert max(sum(part.nbytes for part in result.parts.values()) for result in results) < 1.1 * RESULT_BYTES
    assert len(results) < 30
    assert [number for result in results for number in result.parts[1].column("n").to_pylist()] == list(range(len(ids)))
    assert [number for result in results for number in result.parts[0].column("id").to_pylist()] == ids.tolist()
