"""Routing by ranges: rows meet where the value in the middle of their bands lies, and each pair in one unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from trijoin_sql.operators.checks import Band, Check, Compare, EdgeSpec
from trijoin_sql.operators.kernels.order_keys import HIGHEST, LOWEST
from trijoin_sql.operators.schemes import SCHEMES
from trijoin_sql.operators.schemes.routing import TO_CELLS, TO_GROUPS, reached
from trijoin_sql.operators.spec import JoinSpec, Options, Ranges

from .reference import batch_of, streams
from .scheme_runs import COLUMNS, SCHEMA, assert_exact, rows_of

#: Around stream 1: a band of integers and one of floats, with NaN and infinities among the values.
AROUND: Mapping[str, Band] = {"a": Band("a", "a", -1, 1), "f": Band("f", "f", -1.5, 0.25, arithmetic="float64")}


def ranges(axis: int, shares: int, column: str, others: Sequence[int], *, home: int = 1, width: float = 1) -> Ranges:
    bands = tuple((other, AROUND[column]) for other in others)
    return Ranges(axis, shares, home, column, width, column == "f", bands)


def around(column: str, *others: int, home: int = 1) -> tuple[EdgeSpec, ...]:
    """Return the edges that say what `ranges` does: each is written with the other stream on its left."""
    return tuple(
        EdgeSpec(other, home, (AROUND[column],))
        if other < home
        else EdgeSpec(home, other, (AROUND[column].mirrored(),))
        for other in others
    )


@pytest.mark.parametrize("column", ["a", "f"])
@pytest.mark.parametrize("width", [1, 2, 24])
def test_grids_with_a_dimension_for_each_band(column: str, width: float) -> None:
    """A chain of two bands, a cycle, ranges beside a hashed and beside a spread dimension."""
    random, results = Random(int(width)), 0
    chain = (*around(column, 0), *around("a", 2))
    first, second = ranges(0, 2, column, [0], width=width), ranges(1, 3, "a", [2], width=width)
    cycle = (*chain, EdgeSpec(0, 2, (Band("b", "b", 0, 1),)))
    closing = Ranges(2, 2, 0, "b", width, floats=False, bands=((2, Band("b", "b", -1, 0)),))
    hashed = {0: ((1, "b"),), 2: ((1, "b"),)}
    equal = (*around(column, 0), EdgeSpec(0, 2, (Compare("=", "b", "b"),)))
    spread = {2: ((1, "route"),)}
    for edges, grid, axes, dimensions in (
        (chain, (2, 3), (first, second), {}),
        (cycle, (2, 3, 2), (first, second, closing), {}),
        (equal, (2, 3), (first,), hashed),
        (around("a", 0, 2), (4,), (ranges(0, 4, "a", [0, 2], width=width),), {}),
        ((*around(column, 0), EdgeSpec(1, 2, (Compare("<>", "b", "b"),))), (2, 3), (first,), spread),
    ):
        placed = {rank: dimensions.get(rank, ()) for rank in range(3)}
        cells = int(np.prod(grid))
        options = Options(grid=grid, ranges=axes)
        results += assert_exact(
            JoinSpec("j", streams(3, COLUMNS, placed), edges, "matrix", cells, None, options), random
        )
    assert results > 100


@pytest.mark.parametrize(("units", "subgroups"), [(1, 1), (4, 2), (6, 3), (5, 5)])
@pytest.mark.parametrize("home", [0, 1])
def test_subgroups_of_ranges(units: int, subgroups: int, home: int) -> None:
    """The schemes that store a row in one unit of its stream's group hold inside the subgroup of a range."""
    random, results = Random(units), 0
    other, last = 1 - home, 2
    for scheme, edges, hub in (
        ("symmetric", (*around("a", other, last, home=home), EdgeSpec(other, last, (Band("b", "b", -1, 1),))), None),
        ("semi_symmetric", around("a", other, last, home=home), home),
        ("biclique", around("f", other, home=home), None),
        ("biclique", around("a", other, home=home), None),
    ):
        count = 2 if scheme == "biclique" else 3
        column = edges[0].checks[0].left
        axis = ranges(0, subgroups, column, [rank for rank in range(count) if rank != home], home=home, width=2)
        options = Options(ranges=(axis,))
        spec = JoinSpec("j", streams(count, COLUMNS), edges, scheme, units, hub, options, subgroups=subgroups)
        results += assert_exact(spec, random)
    assert results > 100


@pytest.mark.parametrize("scheme", ["matrix", "biclique"])
def test_each_row_is_counted_in_one_slot(scheme: str) -> None:
    """Late rows are told once, although some reach two ranges."""
    axis = ranges(0, 3, "a", [0], width=1)
    options = Options(grid=(3,), ranges=(axis,)) if scheme == "matrix" else Options(ranges=(axis,))
    spec = JoinSpec("j", streams(2, COLUMNS, {0: (), 1: ()}), around("a", 0), scheme, 6 if scheme == "biclique" else 3,
                    None, options, subgroups=3 if scheme == "biclique" else 1)  # fmt: skip
    routing = SCHEMES[scheme].routing
    assert routing is (TO_CELLS if scheme == "matrix" else TO_GROUPS)
    route = routing.router(spec)
    for rank in range(2):
        rows = batch_of(rows_of(Random(rank), 60, 0), SCHEMA)
        told: Counter[int] = Counter()
        sent = 0
        for slots, some in route(rank, rows):
            part = rows if some is None else rows.take(pa.array(some))
            for slot in slots:
                sent += part.num_rows
                told.update(part.take(pa.array(routing.counted(spec, rank, part, slot))).column("id").to_pylist())
        assert set(told.values()) == {1}
        assert len(told) == 60
        units = max(spec.sizes(spec.blocks[0])) if scheme == "biclique" else 1
        assert sent == 60 * units if rank == 1 else 60 * units < sent <= 180 * units


def reached_shares(axis: Ranges, rank: int, numbers: Sequence[Any], type_: pa.DataType) -> list[set[int]]:
    at, shares = reached(axis, rank, pa.record_batch({axis.column: pa.array(numbers, type_)}))
    found: list[set[int]] = [set() for _ in numbers]
    for row, share in zip(at.tolist(), shares.tolist(), strict=True):
        assert share not in found[row]
        found[row].add(share)
    return found


FAR = [float(f"{sign}{number}") for sign in "+-" for number in ("0", "5e-324", "1e-300", "0.1", "1e17", "1e300", "inf")]


@pytest.mark.parametrize("width", [0.5, 16.0, 1e-310, 1e300])
@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_ranges_of_floats_hold_all_partners(width: float, shift: float) -> None:
    """What a row reaches has the range of every value in its band, at the borders and far out, where floats are few."""
    random = Random(5)
    check = Band("f", "f", shift - 1, shift + 1, arithmetic="float64")
    axis = Ranges(0, 7, 1, "f", width, floats=True, bands=((0, check),))
    ours = [*FAR, *(random.uniform(-9, 9) for _ in range(200)), *(random.randrange(-20, 20) / 2 for _ in range(99))]
    theirs = [*(one - shift + step for one in ours for step in (-1, 0, 1)), float("nan"), *FAR]
    mine, homes = reached_shares(axis, 0, ours, pa.float64()), reached_shares(axis, 1, theirs, pa.float64())
    assert {len(home) for home in homes} == {1}
    met = 0
    for one, shares in zip(ours, mine, strict=True):
        for other, home in zip(theirs, homes, strict=True):
            if shift - 1 <= one - other <= shift + 1:
                met += 1
                assert home <= shares, (one, other)
    assert met > 900


@pytest.mark.parametrize("width", [1, 24, HIGHEST])
@pytest.mark.parametrize("limits", [(-1, 1), (HIGHEST - 2, HIGHEST), (LOWEST, HIGHEST), (0, 0)])
def test_ranges_of_integers_hold_all_partners(width: int, limits: tuple[int, int]) -> None:
    """Up to the ends of BIGINT, where a shifted key would leave it."""
    axis = Ranges(0, 5, 1, "b", width, floats=False, bands=((0, Band("b", "b", *limits)),))
    numbers = [end + step for end in (LOWEST, 0, HIGHEST) for step in range(-30, 31) if LOWEST <= end + step <= HIGHEST]
    mine, homes = (reached_shares(axis, rank, numbers, pa.int64()) for rank in range(2))
    assert {len(home) for home in homes} == {1}
    for one, shares in zip(numbers, mine, strict=True):
        for other, home in zip(numbers, homes, strict=True):
            if limits[0] <= one - other <= limits[1]:
                assert home <= shares, (one, other)


def test_a_row_without_a_value_goes_to_one_range() -> None:
    """A LEFT JOIN keeps it; what lies behind a NULL in Arrow's buffer may be anything."""
    axis = ranges(0, 7, "a", [0])
    behind = pa.Array.from_buffers(pa.int32(), 2, [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([9, 4], np.int32))])
    (first, _), (second, _) = (
        reached_shares(axis, 1, values, pa.int32()) for values in ([None, 4], behind.to_pylist())
    )
    at, shares = reached(axis, 1, pa.record_batch({"a": behind}))
    assert first == second == {int(shares[0])}
    assert at.tolist() == [0, 1]


def test_neighbouring_ranges_are_spread_evenly() -> None:
    """Uniform values fill shares alike, and so do values with a stride."""
    axis = ranges(0, 16, "a", [0], width=8)
    for stride in (1, 8, 16, 128, 1000, 4096):
        rows = pa.record_batch({"a": pa.array(np.arange(40_000) * stride % (1 << 31), pa.int32())})
        _, shares = reached(axis, 1, rows)
        counts = np.bincount(shares, minlength=16)
        assert counts.max() <= 1.3 * counts.mean(), stride


def test_one_row_in_eight_goes_to_two_ranges() -> None:
    axis = ranges(0, 16, "a", [0], width=24)
    at, _ = reached(axis, 0, pa.record_batch({"a": pa.array(np.arange(48_000), pa.int32())}))
    assert 1.0 < len(at) / 48_000 < 1.13


CHECKS: tuple[Check, ...] = (Band("a", "a", -1, 1), Band("b", "b", 0, 2))


def test_two_bands_of_one_pair() -> None:
    """Both have a dimension: a row goes to at most four cells."""
    axes = (
        Ranges(0, 2, 1, "a", 2, floats=False, bands=((0, Band("a", "a", -1, 1)),)),
        Ranges(1, 3, 1, "b", 2, floats=False, bands=((0, Band("b", "b", 0, 2)),)),
    )
    spec = JoinSpec("j", streams(2, COLUMNS, {0: (), 1: ()}), (EdgeSpec(0, 1, CHECKS),), "matrix", 6, None,
                    Options(grid=(2, 3), ranges=axes))  # fmt: skip
    assert assert_exact(spec, Random(4)) > 0
