"""Bundles that cross a shuffle: what arrives stands for the same results, and takes less than a list of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from trijoin_sql.operators.results.bundle import Bundle, Part
from trijoin_sql.operators.results.outcomes import Result, listed
from trijoin_sql.operators.task.wire import bundle_from_bytes, bundle_to_bytes

COLUMNS = (("a",), ("b", "text"), ("c",))


def rows(count: int, *names: str) -> pa.RecordBatch:
    """Columns of which the results need some; every third text is NULL."""
    made = {name: pa.array(range(count), pa.int64()) for name in (*names, "unused")}
    made["text"] = pa.array([None if number % 3 == 0 else "x" * (number % 7) for number in range(count)])
    return pa.RecordBatch.from_pydict(made)


def told(results: Iterable[Result]) -> Counter[tuple[Any, ...]]:
    return Counter(
        row
        for result in results
        for row in zip(
            *(result.parts[rank].column(name).to_pylist() for rank in range(3) for name in COLUMNS[rank]), strict=True
        )
    )


@settings(max_examples=150)
@given(
    st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=30),
    st.sampled_from([1, 200, 1 << 20]),
)
def test_a_bundle_arrives_as_what_it_was(lists: list[list[int]], pairs: list[tuple[int, int]], limit: int) -> None:
    """However small the pieces must be, and whether or not a list of results would be shorter."""
    of = np.array([number % len(lists) for number, _ in pairs], np.int32)
    offsets = np.cumsum([0, *map(len, lists)])
    positions = np.array([member for one in lists for member in one], np.int64)
    parts = {0: Part(rows(10, "a"), np.array([number for _, number in pairs])), 2: Part(rows(6, "c"), of)}
    bundle = Bundle.of_packs(parts, 1, rows(10, "b"), positions, offsets, of)
    expected = Counter(
        (number, member, None if member % 3 == 0 else "x" * (member % 7), int(list_))
        for (_, number), list_ in zip(pairs, of, strict=True)
        for member in lists[list_]
    )
    found: Counter[tuple[Any, ...]] = Counter()
    for piece, small in bundle.sendable(COLUMNS, limit):
        sent = bundle_from_bytes(bundle_to_bytes(piece)) if small else piece
        assert len(sent) == len(piece)
        found += told(listed(sent, COLUMNS))
    assert found == expected == told(listed(bundle, COLUMNS))


def test_a_bundle_is_a_fraction_of_its_results() -> None:
    """Rows that share lists of ten go with each list once; rows that have one partner each go as results."""
    count, partners = 3000, 10
    of = np.arange(count, dtype=np.int32) % 300
    parts = {0: Part(rows(count, "a"), np.arange(count)), 2: Part(rows(count, "c"), np.arange(count))}
    positions = np.arange(300 * partners) % 500
    many = Bundle.of_packs(parts, 1, rows(500, "b"), positions, np.arange(301) * partners, of)
    ((piece, small),) = many.sendable(COLUMNS, 1 << 20)
    assert small
    assert len(piece) == count * partners
    results = sum(part.nbytes for result in listed(many, COLUMNS) for part in result.parts.values())
    assert len(bundle_to_bytes(piece)) < results / 5
    assert "unused" not in {name for part in piece.parts.values() for name in part.source.schema.names}
    one = Bundle.of_packs(parts, 1, rows(500, "b"), np.arange(300), np.arange(301), of)
    assert [small for _, small in one.sendable(COLUMNS, 1 << 20)] == [False]
