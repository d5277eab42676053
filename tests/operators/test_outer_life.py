"""Outer, semi and anti joins over many micro-batches: what each of them gives, exactly, whatever state went through.

Pages of few bits, chunks that merge early, workers that know nothing, tasks that fail, clocks that are far ahead, and
watermarks that stand still or leap: the results of a micro-batch follow from the rows until then and its watermark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from trijoin_sql.operators.checks import AnyOf, Band, Branch, Check, Compare, EdgeSpec
from trijoin_sql.operators.results.outcomes import Result
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.schemes.base import Work
from trijoin_sql.operators.spec import JoinSpec, Kind, Options, StreamSpec
from trijoin_sql.operators.state.manifest import MANIFEST
from trijoin_sql.operators.state.slot_state import SlotState

from .slots import ONE, Chunks, another_worker, small_pieces

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("a", pa.int32()),
        ("b", pa.int32()),
        ("t", pa.int64()),
        ("h", pa.int64()),
        ("route", pa.int64()),
    ]
)
COLUMNS = ("id", "a", "b", "t")
KINDS: tuple[Kind, ...] = ("left", "right", "full", "semi", "anti")
START, DISORDER, FAR = 10**9, 20_000, 10**14
END = 10**15

#: By the ids of its rows, None where there is none.
Found = Counter[tuple[int | None, ...]]


@dataclass(frozen=True)
class Row:
    """A row of a side, and the micro-batch that it comes in."""

    rank: int
    id: int
    a: int | None
    b: int
    t: int
    route: int
    batch: int = 0

    def values(self) -> dict[str, int | None]:
        """Return its columns; equal keys have one hash."""
        own = {"id": self.id, "a": self.a, "b": self.b, "t": self.t, "route": self.route}
        return {**own, "h": -1 if self.a is None else self.a * 7 - 20}


#: By name the checks beside the band in time, and whether rows with equal keys are in one cell.
EDGES: dict[str, tuple[tuple[Check, ...], bool]] = {
    "range": ((Compare("<", "a", "a"),), False),
    "equality": ((Compare("=", "a", "a"), Compare("<>", "b", "b")), True),
    "null-safe equality": ((Compare("<=>", "a", "a"), Compare("<=", "b", "b")), True),
    "either": ((AnyOf((Branch((Compare("=", "a", "a"),)), Branch((Band("b", "b", 2, 3),)))),), False),
}


def partners(edge: str, r: Row, s: Row, lower: int, upper: int) -> bool:
    """Return whether two rows are partners."""
    if not lower <= r.t - s.t <= upper:
        return False
    known = r.a is not None and s.a is not None
    match edge:
        case "range":
            return known and r.a < s.a  # type: ignore[operator]
        case "equality":
            return known and r.a == s.a and r.b != s.b
        case "null-safe equality":
            return r.a == s.a and r.b <= s.b
    return (known and r.a == s.a) or 2 <= r.b - s.b <= 3


def join(kind: Kind, edge: str, units: int, lower: int, upper: int) -> JoinSpec:
    """Return a join by an edge, with ``lower <= r.t - s.t <= upper``."""
    checks, hashed = EDGES[edge]
    required = (("a", "a"),) if edge in ("range", "equality") else ()
    streams = tuple(
        StreamSpec(
            name,
            (("id", f"{name}_id"),),
            COLUMNS,
            "route",
            ((0, "h"),) if hashed else ((rank, "route"),),
            None,
            "t",
            required=required,
            types=tuple((column, SCHEMA.field(column).type) for column in COLUMNS),
        )
        for rank, name in enumerate("rs")
    )
    grid = (units,) if hashed else {"right": (1, units), "full": (1, 1)}.get(kind, (units, 1))
    edges = (EdgeSpec(0, 1, (*checks, Band("t", "t", lower, upper))),)
    cells = units if hashed or kind != "full" else 1
    bounds = ((0, 1, -lower), (1, 0, upper))
    return JoinSpec("j", streams, edges, "matrix", cells, options=Options(grid=grid), bounds=bounds, join=kind)


class Model:
    """What a join has to give, by nested loops over all rows so far."""

    def __init__(self, spec: JoinSpec, edge: str, lower: int, upper: int) -> None:
        self.spec, self.edge, self.bounds = spec, edge, (lower, upper)
        self.rows: tuple[list[Row], list[Row]] = ([], [])
        self.told: set[tuple[int, int]] = set()
        self.met: set[tuple[int, int]] = set()

    def batch(self, rows: Sequence[Row], watermark: int) -> Found:
        """Return the results of a micro-batch."""
        found, spec = Found(), self.spec
        for row in rows:
            self.rows[row.rank].append(row)
        new = {(row.rank, row.id) for row in rows}
        for r in self.rows[0]:
            for s in self.rows[1]:
                if ((0, r.id) in new or (1, s.id) in new) and partners(self.edge, r, s, *self.bounds):
                    self.met |= {(0, r.id), (1, s.id)}
                    if spec.pairs:
                        found[r.id, s.id] += 1
        for rank in spec.tested:
            reach = spec.most(rank, 1 - rank)
            assert reach is not None
            for row in self.rows[rank]:
                name = (rank, row.id)
                never = spec.streams[rank].required and row.a is None
                due = never or (watermark > 0 and row.t + reach <= watermark)
                says = name in self.met if spec.join == "semi" else due and name not in self.met
                if says and name not in self.told:
                    self.told.add(name)
                    found[(row.id, None) if rank == 0 else (None, row.id)] += 1
        return found


class Cells:
    """All cells of a join, called as Spark calls them: with rows, or when a timer is over."""

    def __init__(self, spec: JoinSpec, random: Random) -> None:
        self.spec, self.random, self.number = spec, random, 0
        self.chunks = [Chunks() for _ in range(spec.slots)]
        self.route = SCHEMES[spec.scheme].routing.router(spec)

    def batch(self, rows: Sequence[Row], watermark: int) -> Found:
        """Run a micro-batch, now and then twice or in another worker; return its results."""
        works: dict[int, Work] = {}
        for rank in range(len(self.spec.streams)):
            # The dispatcher drops rows with NULL in a required column, where they are no results.
            dropped = bool(self.spec.streams[rank].required) and rank not in self.spec.tested
            some = [row.values() for row in rows if row.rank == rank and not (dropped and row.a is None)]
            cut = self.random.randrange(len(some) + 1)
            for piece in (some[:cut], some[cut:]):
                batch = pa.RecordBatch.from_pylist(piece, SCHEMA)
                for cells, at in self.route(rank, batch) if piece else ():
                    for cell in cells:
                        mine = batch if at is None else batch.take(pa.array(at))
                        works.setdefault(cell, Work()).rows.setdefault(rank, []).append(mine)
        found = Found()
        for cell, chunks in enumerate(self.chunks):
            timer = chunks.manifest.timer if chunks.committed else None
            if cell not in works and (timer is None or timer > watermark // 1_000) and not self.is_called(cell):
                continue
            work = works.get(cell, Work())
            if self.random.random() < 0.15:  # the task fails at its end, and is tried again
                self._cell(cell, Work({rank: list(some) for rank, some in work.rows.items()}), watermark)
                chunks.abort()
            found += self._cell(cell, work, watermark)
            chunks.commit()
            timer = chunks.manifest.timer
            assert timer is None or timer > watermark // 1_000, "Spark calls at once, and forgets one set anew then"
        self.number += 1
        return found

    def _cell(self, number: int, work: Work, watermark: int) -> Found:
        if self.random.random() < 0.3:
            another_worker()
        state = self.state_of(number, self.random.choice((None, None, 3_000)))
        if state.manifest.watermark:
            work.rows = {rank: _on_time(some, state.manifest.watermark) for rank, some in work.rows.items()}
        found = Found()
        work.watermark = watermark
        for outcome in state.slot.process(work):
            assert isinstance(outcome, Result)
            found.update(_ids(outcome, len(self.spec.streams)))
        if watermark:
            state.expire(watermark)
        self.ended(number, state, watermark)
        state.save(self.number)
        return found

    def is_called(self, cell: int) -> bool:
        """Whether a cell without rows is called all the same."""
        return False

    def state_of(self, number: int, limit: int | None) -> SlotState:
        """Return the state of a cell."""
        (make,) = SCHEMES[self.spec.scheme].stages(self.spec)
        return SlotState(lambda: make(self.spec, number), self.chunks[number], "text", ONE, limit, made_for=self.spec)

    def ended(self, number: int, state: SlotState, watermark: int) -> None:
        """Do what a cell does at the end of a micro-batch."""


def _on_time(batches: list[pa.RecordBatch], watermark: int) -> list[pa.RecordBatch]:
    """Return the rows above the watermark that a cell knows, as a task does."""
    return [batch.filter(pc.greater(batch.column("t"), watermark)) for batch in batches]


def _ids(result: Result, count: int) -> Iterator[tuple[int | None, ...]]:
    columns = [result.parts[rank].column("id").to_pylist() if rank in result.parts else None for rank in range(count)]
    yield from zip(*(column or [None] * len(result) for column in columns), strict=True)


def arriving(random: Random, batches: int, late: float = 0, streams: int = 2) -> list[tuple[list[Row], int]]:
    """Return the rows of micro-batches and their watermarks: all but late ones are above that before."""
    made: list[tuple[list[Row], int]] = []
    clock, watermark, ids = START, 0, [0] * streams
    for number in range(batches):
        rows = []
        for rank in range(streams):
            for _ in range(random.choice([0, 0, 1, 3, 12])):
                t = clock + 1_000 * random.randrange(DISORDER // 1_000)
                if random.random() < 0.03:
                    t += FAR  # a clock that is wrong
                if random.random() < late:
                    t = max(START, t - 1_000 * random.randrange(120))
                key = random.choice([None, *range(6)])
                row = Row(rank, ids[rank], key, random.randrange(6), t, random.getrandbits(40), number)
                rows += [row, replace(row, id=row.id + 1)] if random.random() < 0.1 else [row]
                ids[rank] = rows[-1].id + 1
        made.append((rows, watermark))
        clock += 1_000 * random.choice([0, 2, 5, 60])
        if random.random() < 0.6:  # below all that comes from now on
            watermark = max(watermark, clock - random.choice([1, 500, 30_000]))
    return [*made, ([], watermark), ([], END), ([], END + 1)]


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize(("lower", "upper"), [(-30_000, 0), (5_000, 60_000), (-90_000, -40_000)])
def test_each_micro_batch_gives_what_it_has_to(kind: Kind, edge: str, lower: int, upper: int) -> None:
    random = Random(f"{kind}{edge}{lower}")
    spec = join(kind, edge, random.choice([1, 2, 3]), lower, upper)
    model, cells, total = Model(spec, edge, lower, upper), Cells(spec, random), 0
    for number, (rows, watermark) in enumerate(arriving(random, 24)):
        wanted = model.batch(rows, watermark)
        found = cells.batch(rows, watermark)
        assert found == wanted, f"micro-batch {number}: lost {wanted - found}, too many {found - wanted}"
        total += wanted.total()
    assert total > 5, "there has to be something to compare"
    assert all(set(chunks.committed) <= {MANIFEST} for chunks in cells.chunks), "nothing is left of rows that are over"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("edge", EDGES)
def test_late_rows_take_nothing_from_others(kind: Kind, edge: str) -> None:
    """A cell that knows an older watermark takes more of them: what they join is right, each row is emitted once."""
    lower, upper = -15_000, 30_000
    random = Random(f"late {kind}{edge}")
    spec = join(kind, edge, random.choice([2, 3]), lower, upper)
    cells, found, before = Cells(spec, random), Found(), 0
    sides: tuple[list[Row], list[Row]] = ([], [])
    late: set[tuple[int, int]] = set()
    for rows, watermark in arriving(random, 40, 0.3):
        for row in rows:
            sides[row.rank].append(row)
            if before and row.t <= before:
                late.add((row.rank, row.id))
        found += cells.batch(rows, watermark)
        before = watermark
    assert len(late) > 10
    pairs = {(r.id, s.id) for r in sides[0] for s in sides[1] if partners(edge, r, s, lower, upper)}
    on_time = {(r, s) for r, s in pairs if (0, r) not in late and (1, s) not in late}
    made = Found({pair: count for pair, count in found.items() if None not in pair})
    alone = Found({pair: count for pair, count in found.items() if None in pair})
    assert set(made.values()) | set(alone.values()) == {1}
    assert on_time <= set(made) <= pairs or not spec.pairs
    for rank in spec.tested:
        said = {pair[rank] for pair in alone if pair[1 - rank] is None}
        own = {row.id for row in sides[rank] if (rank, row.id) not in late}
        may, has = ({pair[rank] for pair in some} for some in (pairs, on_time))
        if kind == "semi":
            assert has <= said <= may
            continue
        assert not said & (has | {pair[rank] for pair in made})
        assert own - may <= said, "they have no partner"
        if spec.pairs:
            assert own <= said | {pair[rank] for pair in made}
