"""Late rows: how late, and each counted in one slot."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.schemes.routing import TO_CELLS, TO_GROUPS
from trijoin_sql.operators.spec import Block, JoinSpec, Options, StreamSpec
from trijoin_sql.operators.task.late_rows import FURTHER, LIMITS, how_late

from trijoin_sql.running.late import LateRows


def test_a_row_is_in_the_first_bucket_that_reaches_so_far() -> None:
    """Each limit itself belongs to its bucket, and one microsecond more to the next."""
    watermark = 10**15
    behind = [0, *LIMITS.values(), *(limit + 1 for limit in LIMITS.values())]
    counts = how_late(watermark - np.array(behind), watermark)
    assert counts == [2, 2, 2, 2, 2, 2, 1]
    assert sum(counts) == len(behind)


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
