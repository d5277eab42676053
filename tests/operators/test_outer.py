"""Outer, semi and anti joins outside of Spark: each row without a partner leaves once, as soon as none can come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.checks import Band, Compare, EdgeSpec
from trijoin_sql.operators.results.outcomes import Result
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.schemes.base import Work
from trijoin_sql.operators.spec import JoinSpec, Kind, Options, StreamSpec
from trijoin_sql.operators.state.slot_state import SlotState
from trijoin_sql.operators.store.settled import PAGE_BITS, Settled

from trijoin_sql.errors import CheckpointDamagedError

from .slots import ONE, Chunks, another_worker

SCHEMA = {"id": pa.int64(), "a": pa.int32(), "t": pa.int64(), "route": pa.int64()}
COLUMNS = ("id", "a", "t")
KINDS: tuple[Kind, ...] = ("left", "right", "full", "semi", "anti")
START, DELAY = 10**9, 20_000
Row = dict[str, Any]
Found = Counter[tuple[int | None, int | None]]


def join(kind: Kind, units: int, lower: int, upper: int) -> JoinSpec:
    """Return a join by ``r.a < s.a`` and ``lower <= r.t - s.t <= upper``."""
    types = tuple((name, SCHEMA[name]) for name in COLUMNS)
    streams = tuple(
        StreamSpec(
            name, (("id", f"{name}_id"),), COLUMNS, "route", ((rank, "route"),), None, "t",
            required=(("a", "a"),), types=types,
        )
        for rank, name in enumerate("rs")
    )  # fmt: skip
    grid = {"right": (1, units), "full": (1, 1)}.get(kind, (units, 1))
    edge = EdgeSpec(0, 1, (Compare("<", "a", "a"), Band("t", "t", lower, upper)))
    cells = grid[0] * grid[1]
    options = Options(grid=grid)
    return JoinSpec(
        "j", streams, (edge,), "matrix", cells, options=options, bounds=((0, 1, -lower), (1, 0, upper)), join=kind
    )


def rows_of(random: Random, count: int) -> list[Row]:
    """Rows that are out of order by less than the delay, some of them twice but for their route."""
    rows: list[Row] = []
    for at in range(count):
        row: Row = {
            "id": at,
            "a": random.choice([None, *range(5)]),
            "t": START + 1_000 * (4 * at + random.randrange(DELAY // 1_000)),
            "route": random.getrandbits(40),
        }
        rows.append({**rows[-1], "route": random.getrandbits(40)} if at % 4 == 3 else row)
    return rows


def expected(spec: JoinSpec, sides: Sequence[Sequence[Row]]) -> Found:
    """Return the ids of the results, by nested loops."""
    (_, band), found = spec.edges[0].checks, Found()
    assert isinstance(band, Band)
    met: tuple[set[int], set[int]] = (set(), set())
    for one, r in enumerate(sides[0]):
        for other, s in enumerate(sides[1]):
            near = band.lower <= r["t"] - s["t"] <= band.upper  # type: ignore[operator]
            if r["a"] is not None and s["a"] is not None and r["a"] < s["a"] and near:
                met[0].add(one)
                met[1].add(other)
                if spec.pairs:
                    found[r["id"], s["id"]] += 1
    for rank in spec.tested:
        for at, row in enumerate(sides[rank]):
            if (at in met[rank]) == (spec.join == "semi"):
                found[(row["id"], None) if rank == 0 else (None, row["id"])] += 1
    return found


class Run:
    """All slots of a join in micro-batches, called as Spark calls them: with rows, or when a timer is over."""

    def __init__(self, spec: JoinSpec, random: Random, schema: dict[str, pa.DataType] = SCHEMA) -> None:
        self.spec, self.random, self.schema = spec, random, schema
        self.chunks = [Chunks() for _ in range(spec.slots)]
        self.route = SCHEMES[spec.scheme].routing.router(spec)
        self.batches = 0

    def batch(self, rows: Sequence[Sequence[Row]], watermark: int) -> Found:
        """Run a micro-batch with a watermark (microseconds), now and then twice, or in another worker."""
        works: dict[int, Work] = {}
        for rank, some in enumerate(rows):
            if some:
                batch = pa.RecordBatch.from_pylist(some, pa.schema(list(self.schema.items())))
                for slots, at in self.route(rank, batch):
                    for slot in slots:
                        mine = batch if at is None else batch.take(pa.array(at))
                        works.setdefault(slot, Work()).rows.setdefault(rank, []).append(mine)
        found = Found()
        for slot, chunks in enumerate(self.chunks):
            timer = chunks.manifest.timer if chunks.committed else None
            if slot not in works and (timer is None or timer > watermark // 1_000):
                continue
            work = works.get(slot, Work())
            if self.random.random() < 0.2:  # the task fails at its end, and is tried again
                self._slot(slot, Work({rank: list(some) for rank, some in work.rows.items()}), watermark)
                chunks.abort()
            found += self._slot(slot, work, watermark)
            chunks.commit()
            timer = chunks.manifest.timer
            assert timer is None or timer > watermark // 1_000, "Spark calls at once, and forgets one set anew then"
        self.batches += 1
        return found

    def _slot(self, number: int, work: Work, watermark: int) -> Found:
        if self.random.random() < 0.5:
            another_worker()
        (make,) = SCHEMES[self.spec.scheme].stages(self.spec)
        state = SlotState(lambda: make(self.spec, number), self.chunks[number], "text", ONE, made_for=self.spec)
        found = Found()
        work.watermark = watermark
        for outcome in state.slot.process(work):
            assert isinstance(outcome, Result)
            found.update(ids(outcome))
        if watermark:
            state.expire(watermark)
        state.save(self.batches)
        return found


def ids(result: Result) -> Iterator[tuple[int | None, int | None]]:
    columns = [result.parts[rank].column("id").to_pylist() if rank in result.parts else None for rank in (0, 1)]
    count = len(result)
    yield from zip(*(column or [None] * count for column in columns), strict=True)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIJOIN_LOCAL_DIR", str(tmp_path))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("lower", "upper"), [(-30_000, 0), (5_000, 60_000), (-15_000, 15_000)])
@pytest.mark.parametrize("seed", range(4))
def test_random_runs(kind: Kind, lower: int, upper: int, seed: int) -> None:
    check(kind, lower, upper, seed)


def check(kind: Kind, lower: int, upper: int, seed: int, runner: type[Run] = Run) -> None:
    """Run a join over some cut into micro-batches, and compare what comes, and when, with nested loops."""
    random = Random(f"{kind}{lower}{seed}")
    spec = join(kind, random.choice([1, 2, 5]), lower, upper)
    sides = [rows_of(random, random.randrange(60)) for _ in "rs"]
    run, found, watermark, newest = runner(spec, random), Found(), 0, [0, 0]
    due = {(rank, row["id"]): row["t"] + (spec.most(rank, 1 - rank) or 0) for rank in (0, 1) for row in sides[rank]}
    left = [list(side) for side in sides]
    while any(left):
        sizes = [random.choice([0, 1, 2, 9, 40]) for _ in "rs"]
        rows, left = zip(*((side[:size], side[size:]) for side, size in zip(left, sizes, strict=True)), strict=True)
        now = run.batch(rows, watermark)
        told = {(0 if b is None else 1, a if b is None else b) for a, b in now if a is None or b is None}
        if spec.emits_unmatched:
            nulls = {(rank, row["id"]) for rank in (0, 1) for row in rows[rank] if row["a"] is None}
            assert all(due[one] <= watermark for one in told - nulls), "a partner might still have come"
        found += now
        newest = [max([old, *(row["t"] for row in some)]) for old, some in zip(newest, rows, strict=True)]
        watermark = max(watermark, min(newest) - DELAY)
        if spec.emits_unmatched:  # whoever is due is emitted in the next micro-batch
            found += (now := run.batch(([], []), watermark))
            wanted = expected(spec, sides)
            late = [
                pair for pair in wanted - found if None in pair and due[_of(pair)] <= watermark and _came(pair, left)
            ]
            assert not late, "the watermark has passed them"
    found += run.batch(([], []), 10**12)
    assert found == expected(spec, sides)
    assert not run.batch(([], []), 2 * 10**12), "each row is emitted once"


@pytest.mark.parametrize("kind", KINDS)
def test_a_machine_that_a_slot_comes_back_to(
    kind: Kind, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its warm copy has rows that were emitted and have expired elsewhere: they are not emitted once more."""
    machines = [str(tmp_path_factory.mktemp("machine")) for _ in range(2)]

    class Moving(Run):
        def _slot(self, number: int, work: Work, watermark: int) -> Found:
            another_worker()
            monkeypatch.setenv("TRIJOIN_LOCAL_DIR", self.random.choice(machines))
            return super()._slot(number, work, watermark)

    for seed in range(6):
        check(kind, -30_000, 0, seed, Moving)


def _of(pair: tuple[int | None, int | None]) -> tuple[int, int]:
    one, other = pair
    return (0, one) if one is not None else (1, other or 0)


def _came(pair: tuple[int | None, int | None], left: Sequence[Sequence[Row]]) -> bool:
    rank, number = _of(pair)
    return all(row["id"] != number for row in left[rank])


def test_state_goes_with_its_rows() -> None:
    """Pages of bits are dropped when the rows are: they would grow for as long as the query runs."""
    spec, random = join("left", 1, -30_000, 0), Random(1)
    run = Run(spec, random)
    for number in range(30):
        time = 1_000_000 * (number + 1)
        rows = [{"id": at, "a": 1, "t": time, "route": 0} for at in range(5_000)]
        partners = [{"id": at, "a": 2, "t": time, "route": 0} for at in range(2)]
        run.batch((rows, partners), time - 1)
    (chunks,) = run.chunks
    assert len(chunks.manifest.settled["r"]) <= 2
    assert len(chunks.committed) < 20


def test_a_bit_for_each_row() -> None:
    settled, ids = Settled(), np.array([0, 5, (1 << PAGE_BITS) - 1, 1 << PAGE_BITS, (1 << 40) + 7])
    settled.add(ids[[1, 3, 4]])
    assert settled.has(ids).tolist() == [False, True, False, True, True]
    stored = dict(settled.changes())
    assert not dict(settled.changes()), "unchanged pages are not written again"
    again = Settled()
    again.read = stored.get
    assert again.has(ids).tolist() == [False, True, False, True, True]
    again.keep([0])
    assert again.has(ids[:2]).tolist() == [False, True]


def test_several_bits_for_each_row() -> None:
    settled, ids = Settled(3), np.array([0, (1 << PAGE_BITS) // 3, 1 << PAGE_BITS])
    settled.add(ids[:2], 2)
    settled.add(ids[1:], 0)
    assert [settled.has(ids, mark).tolist() for mark in range(3)] == [
        [False, True, True],
        [False, False, False],
        [True, True, False],
    ]
    settled.keep(settled.pages_of(0, int(ids[1]) + 1))
    assert settled.has(ids, 2).tolist() == [True, True, False], "both pages with bits of the second row"


def test_a_damaged_page_is_said() -> None:
    run, random = Run(join("left", 1, -30_000, 0), Random(3)), Random(4)
    run.batch((rows_of(random, 30), rows_of(random, 30)), 0)
    (chunks,) = run.chunks
    (number,) = chunks.manifest.settled["r"].values()
    chunks.now[number] = chunks.now[number][:5]
    run.random = Random(0)  # `another_worker` or not: the page is read in either case
    another_worker()
    with pytest.raises(CheckpointDamagedError, match="page 0 of r cannot be read"):
        run.batch((rows_of(random, 30), rows_of(random, 30)), START + 1)
