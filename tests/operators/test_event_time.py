"""Joins bounded in event time over their whole life: rows expire, come out of order, and with clocks that are wrong.

Random joins of every scheme, bounded differently in both directions, go through the router, durable state and its copy,
on workers that change; the answer is a nested loop over all rows.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.checks import Band, Check, Compare, EdgeSpec
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.schemes.base import Slot, Work
from trijoin_sql.operators.spec import JoinSpec, Options
from trijoin_sql.operators.state import slot_state as state_module
from trijoin_sql.operators.state import warm
from trijoin_sql.operators.state.slot_state import SlotState
from trijoin_sql.operators.store import store as store_module
from trijoin_sql.operators.store.probe_plan import SortOrder
from trijoin_sql.operators.store.segment import AHEAD, ARCHIVE_PERIODS, Lifetime, lanes
from trijoin_sql.operators.store.store import Store

from .reference import Row, batch_of, hand_on, nested_loop, streams
from .slots import ONE, Chunks, OneStore, another_worker

pytestmark = pytest.mark.usefixtures("local")

SCHEMA = {"id": pa.int64(), "t": pa.int64(), "a": pa.int64(), "route": pa.int64()}
HOUR = 3600


def closed(bounds: Mapping[tuple[int, int], int], count: int) -> tuple[tuple[int, int, int], ...]:
    """Return the shortest paths, as the rewriter closes the bounds of a join."""
    found = dict(bounds)
    for via in range(count):
        for one in range(count):
            for other in range(count):
                if len({one, via, other}) == 3 and (one, via) in found and (via, other) in found:
                    most = found[one, via] + found[via, other]
                    found[one, other] = min(most, found.get((one, other), most))
    return tuple((*pair, most) for pair, most in found.items())


def random_join(random: Random, scheme: str) -> JoinSpec:
    """Return a join whose edges bound the distance in time, differently in both directions."""
    count = {"biclique": 2, "symmetric": 3, "semi_symmetric": 3}.get(scheme) or random.choice([2, 3, 4])
    hub = random.randrange(3) if scheme == "semi_symmetric" else None
    between = [pair for pair in combinations(range(count), 2) if hub is None or hub in pair]
    edges, bounds = [], {}
    for left, right in between:
        low, high = sorted(random.sample([-8, -5, -2, 0, 1, 3, 7], 2))
        checks: list[Check] = [Band("t", "t", low, high, wide=low % 2 == 0)]
        bounds[right, left], bounds[left, right] = high, -low
        if random.random() < 0.7:
            checks.append(random.choice([Compare("<>", "a", "a"), Compare("=", "a", "a"), Band("a", "a", -1, None)]))
        random.shuffle(checks)
        edges.append(EdgeSpec(left, right, tuple(checks)))
    options = Options()
    units = random.choice([1, 2, 3])
    dimensions: dict[int, tuple[tuple[int, str], ...]] = {}
    if scheme == "matrix":
        shape = [random.choice([1, 2]) for _ in range(count)]
        options, units = Options(grid=tuple(shape)), int(np.prod(shape))
        dimensions = {rank: ((rank, "route"),) for rank in range(count)}
    if scheme in ("symmetric", "semi_symmetric") and random.random() < 0.2:
        options = Options(pairs=True)
    sides = tuple(replace(side, time="t") for side in streams(count, ("t", "a"), dimensions))
    return JoinSpec("j", sides, tuple(edges), scheme, units, hub, options, "q", (), closed(bounds, count))


def random_rows(random: Random, first: int, now: int, watermark: int) -> list[Row]:
    """Return rows that are not late: about now, or with a clock that is hours ahead."""
    return [
        {
            "id": first + at,
            "t": now + HOUR * random.randrange(1, 50)
            if random.random() < 0.1
            else max(watermark + 1, now + at % 7 - 3),
            "a": random.randrange(4),
            "route": random.randrange(1000),
        }
        for at in range(random.choice([0, 0, 1, 6, 12]))
    ]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", range(8))
def test_expiry_loses_and_doubles_nothing(seed: int, scheme: str, local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(f"{scheme} {seed}")
    monkeypatch.setattr(warm, "SMALL_BYTES", random.choice([0, 150, 16 << 10]))
    monkeypatch.setattr(state_module, "INSIDE_BYTES", random.choice([0, 1000, 4096]))
    monkeypatch.setattr(state_module, "FAN_IN", random.choice([2, 3, 8]))
    monkeypatch.setattr(state_module, "CROWDED", random.choice([2, 128]))
    monkeypatch.setattr(store_module, "CROWDED", random.choice([2, 64]))
    monkeypatch.setattr(store_module, "SEGMENT_BYTES", random.choice([900, 32 << 20]))
    spec = random_join(random, scheme)
    route = SCHEMES[scheme].routing.router(spec)
    stages: list[list[tuple[Chunks, Any]]] = [
        [(Chunks(), partial(make, spec, slot)) for slot in range(spec.units)] for make in SCHEMES[scheme].stages(spec)
    ]
    arrived: list[list[Row]] = [[] for _ in spec.streams]
    found: Counter[tuple[Any, ...]] = Counter()
    watermark = 0
    for number in range(15):
        watermark = max(watermark, 2 * number - random.choice([2, 4]))
        works = [Work() for _ in range(spec.units)]
        for rank in range(len(spec.streams)):
            rows = random_rows(random, 1000 * rank + 100_000 * number, 2 * number, watermark)
            arrived[rank] += rows
            batch = batch_of(rows, SCHEMA)
            for slots, some in route(rank, batch) if rows else ():
                for slot in slots:
                    works[slot].rows.setdefault(rank, []).append(batch if some is None else batch.take(pa.array(some)))
        for stage in stages:
            following = [Work() for _ in works]
            for at, ((chunks, make), work) in enumerate(zip(stage, works, strict=True)):
                if random.random() < 0.3:
                    another_worker()
                if random.random() < 0.1:
                    shutil.rmtree(local, ignore_errors=True)
                state = SlotState(make, chunks, "q", ONE)
                state.expire(watermark)
                slot: Slot = state.slot
                following[at].rows = {rank: list(some) for rank, some in work.rows.items() if rank in slot.forwards}
                hand_on(spec, at, slot.process(work), following, found)
                state.save(number)
                chunks.commit()
            works = following
    assert found == nested_loop(spec, arrived)
    assert found or seed


def stored(times: Sequence[Sequence[int]], keep_for: int, lag: int) -> tuple[Store, Chunks]:
    """Append micro-batches with some event times, saved one by one; the watermark is ``lag`` behind the number."""
    chunks = Chunks()
    for number, some in enumerate(times):
        state = SlotState(partial(OneStore, keep_for), chunks, "q", ONE)
        state.expire(max(number - lag, 0))
        rows = {"t": np.array(some, np.int64), "n": np.arange(len(some))}
        state.slot.stores["r"].append(pa.RecordBatch.from_pydict(rows))
        state.save(number)
        chunks.commit()
    return state.slot.stores["r"], chunks


@pytest.mark.parametrize("rows", [1, 5, 100])
def test_a_clock_that_is_wrong_keeps_its_own_rows_alone(rows: int) -> None:
    """One row in a hundred is far ahead: it has to stay, and its neighbours must not stay for its sake."""
    random = Random(3)
    times = [
        [number + (HOUR * random.randrange(9, 99) if random.random() < 0.01 else 0) for _ in range(rows)]
        for number in range(500)
    ]
    store, chunks = stored(times, 50, 2)
    wrong = sum(time > number + HOUR for number, some in enumerate(times) for time in some)
    near, ahead = lanes(store.segments)
    assert sum(segment.count for segment in ahead) == wrong
    assert 50 * rows <= sum(segment.count for segment in near) <= (50 + 2 * 50 // ARCHIVE_PERIODS + 4) * rows
    assert len(store.segments) < 80
    assert len(chunks.manifest.chunks["r"]) < 150
    assert sorted(store.take(np.arange(AHEAD, AHEAD + wrong), ["t"]).column("t").to_pylist()) == sorted(
        time for number, some in enumerate(times) for time in some if time > number + HOUR
    )


def test_rows_that_come_in_two_times_do_not_leave_a_piece_a_batch() -> None:
    """Every other batch is a quarter of an hour behind: neighbours are far apart, and merge all the same in the end."""
    times = [[1000 + number - 900 * (number % 2)] * 20 for number in range(600)]
    store, chunks = stored(times, 2000, 0)
    assert len(store) == 20 * 600
    assert len(store.segments) < 90
    assert len(chunks.manifest.chunks["r"]) < 160


def test_a_pause_leads_nobody_ahead_for_long() -> None:
    """After a night without rows all of them are far ahead of what is stored, until that has gone."""
    times = [[number] for number in range(100)] + [[10_000 + number] for number in range(400)]
    store = Store("r", [SortOrder(low="t", high="t")], Lifetime("t", 50))
    for some in times:
        store.expire(some[0] - 2)
        store.append(pa.RecordBatch.from_pydict({"t": np.array(some, np.int64)}))
        store.compact()
    near, ahead = lanes(store.segments)
    assert not ahead
    assert 50 <= sum(segment.count for segment in near) <= 70
