"""Pieces: what rows of any type take is known row by row, or a piece of megabytes may have hundreds of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trijoin_sql.operators.batches.pieces import has_text, longest_text, row_bytes, row_sizes, split
from trijoin_sql.operators.results.bundle import Part
from trijoin_sql.operators.results.outcomes import RESULT_BYTES, joined
from trijoin_sql.operators.store.store import Store

LONG = 100_000

#: By name a type, a value with `LONG` bytes of payload, and one with next to none.
KINDS: dict[str, tuple[pa.DataType, Any, Any]] = {
    "string": (pa.string(), "x" * LONG, ""),
    "binary": (pa.binary(), b"x" * LONG, None),
    "large string": (pa.large_string(), "x" * LONG, ""),
    "large binary": (pa.large_binary(), b"x" * LONG, b"y"),
    "list": (pa.list_(pa.int64()), list(range(LONG // 8)), []),
    "large list": (pa.large_list(pa.int16()), [1] * (LONG // 2), None),
    "list of booleans": (pa.list_(pa.bool_()), [True] * (8 * LONG), [False]),
    "list of texts": (pa.list_(pa.string()), ["", "x" * LONG], [None, ""]),
    "list of empty texts": (pa.list_(pa.string()), [""] * (LONG // 4), []),
    "list of lists": (pa.list_(pa.list_(pa.int32())), [[1] * (LONG // 8), [], [2] * (LONG // 8)], [[]]),
    "struct": (pa.struct([("n", pa.int64()), ("t", pa.string())]), {"n": 1, "t": "x" * LONG}, {"n": None, "t": ""}),
    "list of structs": (
        pa.list_(pa.struct([("n", pa.int64()), ("t", pa.string())])),
        [{"n": 1, "t": "x" * (LONG // 2)}] * 2,
        [{"n": 1, "t": ""}],
    ),
    "struct of lists": (
        pa.struct([("a", pa.list_(pa.decimal128(20, 2))), ("b", pa.date32())]),
        {"a": [1] * (LONG // 16), "b": None},
        None,
    ),
    "map": (pa.map_(pa.string(), pa.string()), [("k", "x" * LONG)], [("", None)]),
    "map of numbers": (pa.map_(pa.int32(), pa.float64()), [(key, 1.0) for key in range(LONG // 12)], []),
    "fixed list of texts": (pa.list_(pa.string(), 2), ["x" * LONG, ""], ["", None]),
}

#: Values and types for the smallest of rows, at random.
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "large string": (pa.large_string(), st.text("xä", max_size=9)),
    "list": (pa.list_(pa.int64()), st.lists(st.integers(0, 9), max_size=5)),
    "list of texts": (pa.list_(pa.string()), st.lists(st.none() | st.text("x", max_size=9), max_size=4)),
    "list of lists": (
        pa.list_(pa.list_(pa.binary())),
        st.lists(st.lists(st.binary(max_size=5), max_size=3), max_size=3),
    ),
    "struct": (
        pa.struct([("n", pa.int16()), ("t", pa.string()), ("l", pa.large_list(pa.string()))]),
        st.fixed_dictionaries(
            {"n": st.integers(0, 9), "t": st.text("x", max_size=9), "l": st.lists(st.text("y", max_size=4), max_size=3)}
        ),
    ),
    "map": (
        pa.map_(pa.string(), pa.list_(pa.int32())),
        st.lists(st.tuples(st.text("k", max_size=5), st.lists(st.integers(0, 9), max_size=3)), max_size=3),
    ),
    "fixed list of texts": (pa.list_(pa.string(), 2), st.lists(st.text("x", max_size=9), min_size=2, max_size=2)),
}


def payload(value: Any, type_: pa.DataType) -> int:
    """Return the bytes of a value in Arrow, without those of its own offset."""
    if pa.types.is_struct(type_):
        fields = [type_.field(number) for number in range(type_.num_fields)]
        return sum(payload(None if value is None else value[f.name], f.type) + _offset(f.type) for f in fields)
    if value is None:
        return 0 if _offset(type_) else type_.bit_width // 8
    if pa.types.is_map(type_):
        return sum(
            payload(one, part) + _offset(part) for item in value for one, part in zip(item, _entry(type_), strict=True)
        )
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return sum(payload(one, type_.value_type) + _offset(type_.value_type) for one in value)
    if _offset(type_):
        return len(value.encode() if isinstance(value, str) else value)
    return int(type_.bit_width // 8)


def _entry(type_: pa.MapType) -> tuple[pa.DataType, pa.DataType]:
    return type_.key_type, type_.item_type


def _offset(type_: pa.DataType) -> int:
    large = pa.types.is_large_string(type_) or pa.types.is_large_binary(type_) or pa.types.is_large_list(type_)
    small = (pa.types.is_string, pa.types.is_binary, pa.types.is_list, pa.types.is_map)
    return 8 if large else 4 if any(is_(type_) for is_ in small) else 0


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(TYPES)), st.data())
def test_sizes_of_nested_rows_are_those_of_their_values(name: str, data: st.DataObject) -> None:
    """Of slices too: their offsets begin elsewhere, and so do those of what is in them."""
    type_, strategy = TYPES[name]
    given_ = data.draw(st.lists(strategy, min_size=1, max_size=12))
    start = data.draw(st.integers(0, len(given_) - 1))
    batch = pa.RecordBatch.from_pydict({"a": pa.array(given_, type_)}).slice(start)
    wanted = np.array([payload(value, type_) for value in given_[start:]])
    sizes = row_sizes(batch, ["a"])
    assert isinstance(sizes, np.ndarray)
    assert np.ptp(sizes - wanted) == 0, "but for a constant"
    assert 0 <= sizes[0] - wanted[0] <= 8
    assert longest_text(batch, ["a"]) == wanted.max()
    some = np.array(data.draw(st.lists(st.integers(0, len(wanted) - 1), max_size=5)), np.int64)
    assert (row_sizes(batch, ["a"], some) == sizes[some]).all()


@pytest.mark.parametrize("name", KINDS)
def test_a_long_value_of_any_type_is_not_put_together_with_others(name: str) -> None:
    """One of 100 kB among 40,000 short ones: by the mean a piece of 4 MiB had 100 MB of it."""
    type_, long, short = KINDS[name]
    batch = pa.RecordBatch.from_pydict({"id": np.arange(40_001), "a": pa.array([long] + [short] * 40_000, type_)})
    assert has_text(batch, ["id", "a"])
    assert longest_text(batch, ["id", "a"]) >= 0.9 * LONG
    ids = np.array([0] * 200 + list(range(1, 3000)))
    store = Store("s", [])
    store.append(batch)
    assert store.longest >= 0.9 * LONG
    for source in (batch, store):
        found = list(joined({0: Part(source, ids)}, [["a", "id"]]))
        assert max(result.parts[0].nbytes for result in found) < 1.1 * RESULT_BYTES
        assert [one for result in found for one in result.parts[0]["id"].to_pylist()] == ids.tolist()


@pytest.mark.parametrize("name", KINDS)
def test_batches_are_split_by_what_rows_of_any_type_take(name: str) -> None:
    """Chunks of state above some megabytes end a query on small heaps."""
    type_, long, short = KINDS[name]
    values = [long] * 30 + [short] * 20_000
    batch = pa.RecordBatch.from_pydict({"id": np.arange(len(values)), "a": pa.array(values, type_)})
    pieces = list(split(batch, 1 << 20))
    assert max(piece.nbytes for piece in pieces) < 1.2 * (1 << 20)
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([batch]))


@pytest.mark.parametrize(
    "type_",
    [
        pa.bool_(),
        pa.int8(),
        pa.float64(),
        pa.decimal128(38, 2),
        pa.date32(),
        pa.timestamp("us"),
        pa.null(),
        pa.binary(5),
        pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.bool_())]))]),
        pa.list_(pa.int16(), 3),
    ],
)
def test_rows_that_are_all_alike_cost_no_look_at_each(type_: pa.DataType) -> None:
    batch = pa.RecordBatch.from_pydict({"a": pa.nulls(10, type_), "id": np.arange(10)})
    assert not has_text(batch, ["a", "id"])
    assert longest_text(batch, ["a", "id"]) == 0
    assert row_sizes(batch, ["a", "id"], np.arange(3)) == row_bytes(batch, ["a", "id"])
