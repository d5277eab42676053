"""What an aggregation asks of rows given by number: the same as of their values, and no text once a result."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.batches.ipc import from_bytes
from trijoin_sql.operators.checks import EdgeSpec
from trijoin_sql.operators.results import columns as columns_module
from trijoin_sql.operators.results import local_views as aggregate_module
from trijoin_sql.operators.results.bundle import Bundle, Part
from trijoin_sql.operators.results.columns import Columns
from trijoin_sql.operators.results.local_views import Reducer
from trijoin_sql.operators.results.outcomes import Reduced
from trijoin_sql.operators.spec import AggregateSpec, JoinSpec, KeySpec, StateSpec
from trijoin_sql.operators.store.store import Store
from trijoin_sql.operators.task import outputs as results_module

from .reference import DOMAINS, batch_of, cut, order, run
from .test_aggregate import EDGES, KEYS, SCHEMA, assert_same, expected, merged, rows_of, states, streams

TEXTS = (KeySpec(0, "t", "k"),), (StateSpec("count", "n"),)
COUNTED = (), (StateSpec("count", "c", 0, "t"), StateSpec("count", "m", 1, "t"))
EXTREMES = (), tuple(StateSpec(f, f"{f}{rank}", rank, "t") for f in ("min", "max") for rank in (0, 1))  # type: ignore[arg-type]


def stored(rows: pa.RecordBatch, pieces: int) -> Store:
    store = Store("r", [])
    for number in range(pieces):
        first, last = (rows.num_rows * at // pieces for at in (number, number + 1))
        store.append(rows.slice(first, last - first))
    return store


def plain(array: pa.Array) -> list[Any]:
    """Return values that Python has: not those of times beyond its own."""
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    return array.to_pylist()


@pytest.mark.parametrize("source", ["batch", "large batch", "store"])
@pytest.mark.parametrize("copied", [40, 1 << 20])
@pytest.mark.parametrize("kind", DOMAINS)
def test_values_of_every_type(kind: str, source: str, copied: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """NULL, NaN and -0.0, wide decimals and bytes above 127: as Spark orders them, in pieces of any size."""
    monkeypatch.setattr(columns_module, "COPIED_BYTES", copied)
    monkeypatch.setattr(columns_module, "FEW_BYTES", copied // 40)
    type_, domain = DOMAINS[kind]
    random = Random(kind)
    values = [random.choice([None, *domain]) for _ in range(1000 if source == "large batch" else 25)]
    rows = pa.RecordBatch.from_pydict({"v": pa.array(values, type_)})
    values = plain(rows["v"])
    ids = np.array([random.randrange(len(values)) for _ in range(200)])
    groups = np.array([random.randrange(40) for _ in ids])
    columns = Columns(Part(stored(rows, 3) if source == "store" else rows, ids))
    valid = columns.valid("v")
    assert (np.ones(len(ids), np.bool_) if valid is None else valid).tolist() == [values[at] is not None for at in ids]
    for greatest in (False, True):
        found = plain(columns.extreme("v", groups, 41, greatest=greatest).array())
        for group in range(41):
            known = [values[at] for at in ids[groups == group] if values[at] is not None]
            wanted = (max if greatest else min)(known, key=order) if known else None
            assert [order(wanted)] == [order(found[group])]
    codes, size = columns.encoded(["v"])
    assert codes.max() < size
    for code in np.unique(codes):
        assert len({repr(values[at]) for at in ids[codes == code]}) == 1
    if source != "store":
        assert len(np.unique(codes)) == len({repr(values[at]) for at in ids})


@pytest.mark.parametrize(("keys", "sought"), [TEXTS, COUNTED, EXTREMES], ids=["key", "count", "extremes"])
@pytest.mark.parametrize("source", ["batch", "large batch", "store"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_text_is_not_taken_once_a_result(
    keys: tuple[KeySpec, ...], sought: tuple[StateSpec, ...], source: str, packed: bool
) -> None:
    """A text of 3 MB in a thousand results was 3 GB, more than Arrow takes at once, and the query failed."""
    count = 1000
    long = pa.array(["x" * 3_000_000, "y" * 3_000_000, None, *[""] * (5000 if source == "large batch" else 0)])
    rows = pa.RecordBatch.from_pydict({"t": long})
    these = stored(rows, 2) if source == "store" else rows
    ids = np.arange(count) % 3
    each = np.arange(count)
    lists = (np.append(each, count), each) if packed else None
    bundle = Bundle({0: Part(these, ids)}, 1, these, ids, each, each + 1, lists)
    outcomes = list(Reducer(AggregateSpec(keys, sought)).run(iter([bundle])))
    found = [row for one in outcomes if isinstance(one, Reduced) for row in one.rows.to_pylist()]
    if keys:
        assert {(row["k"] or "")[:1]: row["n"] for row in found} == {"x": 334, "y": 333, "": 333}
        return
    (row,) = found
    assert {name: value if isinstance(value, int) else value[:1] for name, value in row.items()} == (
        {"c": 667, "m": 667} if sought is COUNTED[1] else {"min0": "x", "min1": "x", "max0": "y", "max1": "y"}
    )


def test_groups_of_long_keys_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each result a group of its own: their keys are not taken at once, and do not wait for each other."""
    monkeypatch.setattr(aggregate_module, "GROUP_BYTES", 1 << 20)
    rows = pa.RecordBatch.from_pydict({"t": ["x" * 50_000 + str(number) for number in range(60)]})
    each = np.repeat(np.arange(60), 60)
    others = np.tile(np.arange(60), 60)
    bundle = Bundle({0: Part(rows, each)}, 1, rows, others, np.arange(3600), np.arange(3600) + 1)
    aggregate = AggregateSpec((KeySpec(0, "t", "k"), KeySpec(1, "t", "l")), (StateSpec("count", "n"),))
    groups, most = 0, 0
    for one in Reducer(aggregate).run(iter([bundle])):
        assert isinstance(one, Reduced)
        groups, most = groups + len(one), max(most, one.rows.nbytes)
    assert groups == 3600
    assert most < 2.1 * aggregate_module.GROUP_BYTES  # one batch waits for another


def test_groups_for_another_stage_go_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """All groups that a stage found were one value on their way through Spark."""
    monkeypatch.setattr(results_module, "PACKED_BYTES", 10_000)
    groups = pa.RecordBatch.from_pydict({"k": [f"{number:0100}" for number in range(1000)], "n": range(1000)})
    spec = JoinSpec("j", (), (), "semi_symmetric", 1, 1, output=("k", "n"))
    output = results_module.Output(spec, 0, packed=True)
    sent = [row[2] for row in output.rows(iter([Reduced(groups)]), [], {}) if isinstance(row, tuple)]
    assert max(map(len, sent)) < 25_000
    assert pa.Table.from_batches(map(from_bytes, sent)).to_pydict() == groups.to_pydict()


@pytest.mark.parametrize("keys", KEYS, ids=str)
def test_rows_of_stores_in_small_pieces(keys: tuple[tuple[int, str], ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows are looked at together, groups and states are those of a nested loop."""
    monkeypatch.setattr(columns_module, "COPIED_BYTES", 50)
    monkeypatch.setattr(columns_module, "FEW_BYTES", 0)
    monkeypatch.setattr(aggregate_module, "GROUP_BYTES", 2000)
    random = Random(str(keys))
    for ranks in ([0, 1], [2]):
        inputs = [rows_of(random, 8) for _ in range(3)]
        edges = (EdgeSpec(0, 1, EDGES["band"]), EdgeSpec(1, 2, EDGES["band"]))
        made = tuple(KeySpec(rank, column, f"key{at}") for at, (rank, column) in enumerate(keys))
        aggregate = AggregateSpec(made, tuple(states(ranks)))
        spec = JoinSpec("j", streams(3), edges, "semi_symmetric", 2, 1, aggregate=aggregate)
        cuts = [cut(random, rows, 3) for rows in inputs]
        batches = [{rank: [batch_of(one[at], SCHEMA)] for rank, one in enumerate(cuts) if one[at]} for at in range(3)]
        groups: list[pa.RecordBatch] = []
        run(spec, batches, groups=groups)
        assert_same(merged(spec, groups), expected(spec, inputs))
