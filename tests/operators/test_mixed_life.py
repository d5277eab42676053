"""Trees of joins over many micro-batches: what each of them gives, exactly, whatever state went through.

As in `test_outer_life`, against nested loops that say which results there are after a micro-batch. A result comes in
the micro-batch in which its last row comes, or in which the watermark says that no partner comes any more: no branch
waits for another, none is padded first and matched later, and workers may lose what they know.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random

import pytest
from trijoin_sql.operators.checks import Band, EdgeSpec
from trijoin_sql.operators.spec import Branch, Closest, JoinSpec, Options, StreamSpec
from trijoin_sql.operators.state.manifest import MANIFEST

from .slots import small_pieces
from .test_outer_life import COLUMNS, EDGES, END, SCHEMA, Cells, Found, Row, arriving, partners

KINDS = ("left", "semi", "anti", "closest", "left_closest")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)


@dataclass(frozen=True)
class Hung:
    """An edge of the tree: with ``lower <= anchor.t - other.t <= upper`` beside the checks of `EDGES`."""

    anchor: int
    kind: str
    edge: str
    lower: int
    upper: int


def random_join(random: Random) -> tuple[JoinSpec, list[Hung]]:
    """Return a tree of joins: an edge for each stream but the first, inner ones first."""
    inner = random.choice((0, 0, 1, 2))
    edges = []
    hashed = random.random() < 0.4
    for number in range(inner + random.choice((1, 2, 3) if inner else (2, 3))):
        kind = "inner" if number < inner else random.choice(KINDS)
        names = [one for one, (_, by_key) in EDGES.items() if by_key or not hashed]
        lower = random.choice((-30_000, 5_000, -90_000, 0))
        closest = kind.endswith("closest")
        lower = max(lower, 0) if closest else lower
        upper = lower + random.choice((20_000, 60_000))
        edge = "equality" if closest else random.choice(names)
        edges.append(Hung(random.randrange(min(number, inner) + 1), kind, edge, lower, upper))
    return _spec(random, edges, inner, hashed), edges


def _spec(random: Random, edges: list[Hung], inner: int, hashed: bool) -> JoinSpec:
    core = inner + 1
    units = random.choice((1, 2, 3))
    required: dict[int, tuple[tuple[str, str], ...]] = {}
    for rank, one in enumerate(edges, 1):
        if one.edge in ("range", "equality"):
            required[rank] = (("a", "a"),)
            if one.kind == "inner":
                required[one.anchor] = (("a", "a"),)
    streams = tuple(
        StreamSpec(
            "rstuvw"[rank],
            (("id", f"{rank}_id"),),
            COLUMNS,
            "route",
            ((0, "h"),) if hashed else ((rank, "route"),) if rank < core else (),
            None,
            "t",
            required=required.get(rank, ()),
            types=tuple((column, SCHEMA.field(column).type) for column in COLUMNS),
        )
        for rank in range(len(edges) + 1)
    )
    branches = tuple(
        Branch(
            rank,
            one.anchor,
            one.kind,  # type: ignore[arg-type]
            ("a",) if one.edge in ("range", "equality") else (),
            Closest("t", "t", "greatest") if one.kind.endswith("closest") else None,
        )
        for rank, one in enumerate(edges, 1)
        if one.kind != "inner"
    )
    specs = tuple(
        EdgeSpec(one.anchor, rank, (*EDGES[one.edge][0], Band("t", "t", one.lower, one.upper)))
        for rank, one in enumerate(edges, 1)
    )
    most: dict[tuple[int, int], int] = {}
    for rank, one in enumerate(edges, 1):  # a tree: the sum along its one path
        most[one.anchor, rank], most[rank, one.anchor] = -one.lower, one.upper
        for other in range(rank):
            if other != one.anchor:
                most[other, rank] = most[other, one.anchor] - one.lower
                most[rank, other] = one.upper + most[one.anchor, other]
    grid = (units,) if hashed else (units, *(1 for _ in range(core - 1)))
    bounds = tuple((i, j, length) for (i, j), length in most.items())
    return JoinSpec(
        "j", streams, specs, "matrix", units, options=Options(grid=grid), bounds=bounds, join="mixed", branches=branches
    )


class Model:
    """What has to be there after each micro-batch, by nested loops over all rows so far."""

    def __init__(self, spec: JoinSpec, edges: list[Hung]) -> None:
        self.spec, self.edges = spec, edges
        self.rows: list[list[Row]] = [[] for _ in spec.streams]
        self.before = Found()

    def batch(self, rows: list[Row], watermark: int) -> Found:
        """Return the results that are new."""
        for row in rows:
            self.rows[row.rank].append(row)
        now = Found()
        for core in self._core():
            for found in product(*(self._of(rank, core, watermark) for rank in range(len(core), len(self.rows)))):
                now[(*(row.id for row in core), *found)] += 1
        new = now - self.before
        assert not self.before - now, "a result stays"
        self.before = now
        return new

    def _core(self) -> list[tuple[Row, ...]]:
        found: list[tuple[Row, ...]] = [(row,) for row in self.rows[0]]
        for rank, one in enumerate(self.edges, 1):
            if one.kind == "inner":
                found = [
                    (*some, row)
                    for some in found
                    for row in self.rows[rank]
                    if partners(one.edge, some[one.anchor], row, one.lower, one.upper)
                ]
        return found

    def _of(self, rank: int, core: tuple[Row, ...], watermark: int) -> list[int | None]:
        one = self.edges[rank - 1]
        anchor = core[one.anchor]
        never = one.edge in ("range", "equality") and anchor.a is None
        over = never or (watermark > 0 and anchor.t - one.lower <= watermark)
        found = [row for row in self.rows[rank] if partners(one.edge, anchor, row, one.lower, one.upper)]
        match one.kind:
            case "left":
                return [row.id for row in found] or ([None] if over else [])
            case "semi":
                return [None] if found else []
            case "anti":
                return [None] if over and not found else []
        if not over:
            return []
        if not found:
            return [None] if one.kind == "left_closest" else []
        return [max(row.t for row in found)]

    def by_time(self, found: Found) -> Found:
        """Return results with the times of closest rows in the place of their ids: of those of one time any will do."""
        times = [{row.id: row.t for row in rows} for rows in self.rows]
        closest = [rank for rank, one in enumerate(self.edges, 1) if one.kind.endswith("closest")]
        named = Found()
        for ids, count in found.items():
            named[tuple(times[at].get(one) if at in closest else one for at, one in enumerate(ids))] += count  # type: ignore[arg-type]
        return named


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(one, marks=pytest.mark.rare) for one in range(10, 60))])
def test_each_micro_batch_gives_what_it_has_to(seed: int) -> None:
    random = Random(seed)
    spec, edges = random_join(random)
    model, cells, total = Model(spec, edges), Cells(spec, random), 0
    batches = arriving(random, 16, streams=len(spec.streams))
    for number, (rows, watermark) in enumerate(batches):
        wanted, found = model.batch(rows, watermark), model.by_time(cells.batch(rows, watermark))
        assert found == wanted, f"micro-batch {number} of {edges}: lost {wanted - found}, too many {found - wanted}"
        total += wanted.total()
    assert batches[-1][1] > END
    left = [name for chunks in cells.chunks for name in chunks.manifest.chunks if chunks.manifest.chunks[name]]
    assert left == []
    assert all(set(chunks.committed) <= {MANIFEST} for chunks in cells.chunks), "nothing is left"
