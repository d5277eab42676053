"""Late rows: how late, which rows may be, each in one slot, and what a slot says of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.schemes.routing import TO_CELLS, TO_GROUPS
from trijoin_sql.operators.spec import Block, JoinSpec, Options, StreamSpec
from trijoin_sql.operators.task.late_rows import FURTHER, LIMITS, Late, candidates, how_late, packed, unpacked

from trijoin_sql.running.late import LateRows
from trijoin_sql.running.late_rows import each_once


def test_a_row_is_in_the_first_bucket_that_reaches_so_far() -> None:
    """Each limit itself belongs to its bucket, and one microsecond more to the next."""
    watermark = 10**15
    behind = [0, *LIMITS.values(), *(limit + 1 for limit in LIMITS.values())]
    counts = how_late(watermark - np.array(behind), watermark)
    assert counts == [2, 2, 2, 2, 2, 2, 1]
    assert sum(counts) == len(behind)


def stream_of(times: list[int | None]) -> pa.RecordBatch:
    rows = [f"row {number}" for number in range(len(times))]
    return pa.RecordBatch.from_pydict({"t": pa.array(times, pa.int64()), "w": rows})


def test_only_rows_that_may_be_late_take_their_json_along() -> None:
    rows = stream_of([5, 30, None, 10, 11])
    plain, late = candidates(rows, "w", "t", 10)
    assert (plain.schema.names, plain.column("t").to_pylist()) == (["t"], [30, None, 11])
    assert late.to_pylist() == [{"t": 5, "w": "row 0"}, {"t": 10, "w": "row 3"}]
    (nobody_asks,) = candidates(rows, "w", "t", None)
    (none_late,) = candidates(rows, "w", "t", 4)
    assert nobody_asks == none_late == rows.select(["t"])
    (all_late,) = candidates(stream_of([1, 2]), "w", "t", 2)
    assert all_late.schema.names == ["t", "w"]


@pytest.mark.parametrize("units", [1, 2, 3, 6])
@pytest.mark.parametrize("retired", [0, 2])
def test_each_late_row_is_counted_in_one_slot(units: int, retired: int) -> None:
    """In groups, with slots that hold rows of an earlier layout, and in grids of two spread dimensions."""
    random = Random(units)
    rows = pa.RecordBatch.from_pydict({"c": [*range(50)], "r": [random.getrandbits(62) for _ in range(50)]})
    stream = StreamSpec("s", (), ("c",), "r")
    groups = JoinSpec("j", (stream, stream), (), "biclique", units, earlier=(Block(units + retired),))
    keyed = replace(stream, group="c")
    by_key = JoinSpec("j", (keyed, keyed), (), "biclique", units, subgroups=0, base=2, earlier=(Block(2),))
    for spec, routing in ((groups, TO_GROUPS), (by_key, TO_GROUPS), *((one, TO_CELLS) for one in grids(units))):
        for rank in range(2):
            found: list[int] = []
            for slots, some in routing.router(spec)(rank, rows):
                reached = rows if some is None else rows.take(pa.array(some))
                for slot in slots:
                    mine = routing.counted(spec, rank, reached, slot)
                    found += reached.take(pa.array(mine, pa.int64())).column("c").to_pylist()
            assert sorted(found) == list(range(50)), (spec.options, rank)


def grids(units: int) -> list[JoinSpec]:
    across = (StreamSpec("r", (), ("c",), "r", ((0, "r"),)), StreamSpec("s", (), ("c",), "r", ((1, "r"),)))
    return [
        JoinSpec("j", across, (), "matrix", units * 2, options=Options(grid=(units, 2))),
        JoinSpec("j", across, (), "matrix", units * 2, options=Options(grid=(2, units))),
    ]


def test_a_slot_says_what_it_dropped() -> None:
    times = np.array([1, 2], np.int64)
    nobody_asks = Late(0, times)
    told = packed([Late(1, times, pa.array(["a", "b"])), nobody_asks, Late(1, times[:0], pa.array([], pa.string()))], 7)
    assert told is not None
    assert unpacked(told).to_pylist() == [
        {"rank": 1, "time": 1, "watermark": 7, "row": "a"},
        {"rank": 1, "time": 2, "watermark": 7, "row": "b"},
    ]
    assert packed([nobody_asks], 7) is None


def said(number: int, stream: str, rows: list[tuple[int, str]], watermark: int = 9) -> pa.RecordBatch:
    times, texts = [time for time, _ in rows], [text for _, text in rows]
    several = len(rows)
    return pa.RecordBatch.from_pydict(
        {
            "input": pa.array([number] * several, pa.int64()),
            "stream": [stream] * several,
            "key": [stream.lower()] * several,
            "event_time": pa.array(times, pa.int64()),
            "watermark": pa.array([watermark] * several, pa.int64()),
            "row": texts,
        }
    )


def test_a_stream_of_several_aliases_gives_each_row_once_and_twins_twice() -> None:
    """Aliases drop the same rows, each in slots of its own; a condition may have dropped some before one of them."""
    batches = [
        said(0, "r", [(1, "a"), (1, "a")]),
        said(0, "r", [(2, "b")]),  # of another slot
        said(1, "R", [(1, "a"), (2, "b"), (3, "c")], watermark=8),
        said(2, "s", [(1, "a")]),
    ]
    found = [
        (row["stream"].lower(), row["row"], row["watermark"].microsecond) for row in each_once(batches).to_pylist()
    ]
    assert sorted(found) == [("r", "a", 9), ("r", "a", 9), ("r", "b", 9), ("r", "c", 8), ("s", "a", 9)]
    assert each_once([]).num_rows == 0


def test_how_late_adds_up_over_slots_and_micro_batches_once_a_stream() -> None:
    late = LateRows()
    one = {"of": "r", "filtered": False}
    first, second = [2, 0, 0, 0, 0, 0, 1], [0, 1, 0, 0, 0, 0, 0]
    slots = [
        {"late_rows": {"p": {**one, "rows": 3, "behind": first}, "q": {**one, "of": "R", "rows": 1, "behind": second}}},
        {"late_rows": {"q": {**one, "of": "R", "rows": 2, "behind": [2, 0, 0, 0, 0, 0, 0]}}},
    ]
    late.add([slots])
    late.add([[{"late_rows": {"p": {**one, "rows": 1, "behind": second}}}]])
    assert late.how_late() == {"r": {"1 second": 2, "10 seconds": 1, FURTHER: 1}}
    assert late.total == sum(late.how_late()["r"].values()) == 4
