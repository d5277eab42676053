"""Order keys: every comparable Arrow type as int64, so that one index and one comparison serve all types.

``a < b`` in Spark's order implies ``key(a) <= key(b)``. Where the key is *exact*, ``a < b`` is ``key(a) < key(b)`` and
``a = b`` is ``key(a) = key(b)``; elsewhere (strings, binaries, wide decimals) it is a prefix, good enough to find
candidates, and the values themselves decide.

The files of the warm copy hold keys: whoever changes what a key is raises `warm_file.VERSION`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64s = npt.NDArray[np.int64]

LOWEST = np.iinfo(np.int64).min
HIGHEST = np.iinfo(np.int64).max

#: No cell is further from the middle than this one.
_FAR = 2.0**62


def is_exact(type_: pa.DataType) -> bool:
    """Return whether order keys of this type decide comparisons by themselves.

    Raises
    ------
    TypeError
        If the type has no order key at all.
    """
    if pa.types.is_decimal(type_):
        return bool(type_.precision <= 18)
    if _is_text(type_):
        return False
    if (
        pa.types.is_integer(type_)
        or pa.types.is_floating(type_)
        or pa.types.is_boolean(type_)
        or pa.types.is_date(type_)
        or pa.types.is_timestamp(type_)
        or pa.types.is_duration(type_)
    ):
        return True
    raise TypeError(f"no order key for {type_}")


def order_key(array: pa.Array) -> Int64s:
    """Return the order keys of an array.

    Parameters
    ----------
    array
        Shape (n,). Nulls get an arbitrary key: callers filter them or check validity.

    Returns
    -------
    Shape (n,).

    Raises
    ------
    TypeError
        If the type has no order key.
    """
    type_ = array.type
    if pa.types.is_int64(type_):
        return values(array)
    if pa.types.is_floating(type_):
        return float_key(values(array))
    if pa.types.is_boolean(type_):
        return values(pc.cast(pc.fill_null(array, False), pa.int8())).astype(np.int64)
    if pa.types.is_integer(type_) or pa.types.is_date32(type_):
        return values(array).astype(np.int64)
    if pa.types.is_timestamp(type_) or pa.types.is_duration(type_):
        return values(array)
    if pa.types.is_decimal128(type_):
        words = decimal_words(array)
        return np.ascontiguousarray(words[:, 0]) if type_.precision <= 18 else _wide_key(words)
    if _is_text(type_):
        return _prefix_key(array)
    raise TypeError(f"no order key for {type_}")


def _is_text(type_: pa.DataType) -> bool:
    """Return whether a type is bytes of any length; large ones come where Spark's ``arrow.useLargeVarTypes`` is on."""
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_binary(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_large_binary(type_)
    )


def values(array: pa.Array) -> npt.NDArray[Any]:
    """Return the values of a fixed-width array without copying, whatever its validity.

    Dates and timestamps come as integers. A boolean array is not fixed-width in Arrow (bits) and is refused.
    """
    type_ = array.type
    if pa.types.is_date32(type_):
        dtype: Any = np.int32
    elif pa.types.is_timestamp(type_) or pa.types.is_duration(type_) or pa.types.is_date64(type_):
        dtype = np.int64
    elif pa.types.is_boolean(type_):
        raise TypeError("booleans are packed bits")
    else:
        dtype = type_.to_pandas_dtype()
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype)[array.offset : array.offset + len(array)]


def float_key(numbers: npt.NDArray[Any]) -> Int64s:
    """Return order keys of floats, shape (n,): -0.0 as 0.0, all NaN alike and above infinity, as in Spark."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        doubles = numbers.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    doubles = np.where(np.isnan(doubles), np.nan, doubles)
    return np.asarray(mirrored(doubles.view(np.int64)), np.int64)


def cells(keys: Int64s, width: float, *, floats: bool) -> Int64s:
    """Return the number of the cell of each key, shape (n,); it does not decrease as keys grow.

    Parameters
    ----------
    keys
        Order keys.
    width
        Of a cell, in the numbers that the keys stand for.
    floats
        Whether the keys are those of floats.
    """
    if not floats:
        return keys // int(width)
    with np.errstate(invalid="ignore", over="ignore"):
        numbers = np.floor(mirrored(keys).view(np.float64) / width)
        return np.asarray(np.nan_to_num(np.clip(numbers, -_FAR, _FAR), nan=_FAR), np.int64)


def mirrored(bits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Turn the bits of floats, as signed integers of their size, into integers in the floats' order; and back."""
    return np.asarray(bits ^ ((bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max))


def decimal_words(array: pa.Array) -> Int64s:
    """Return the two little-endian 64-bit words of each decimal, shape (n, 2)."""
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros((len(array), 2), np.int64)
    return np.frombuffer(buffer, np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]


def _wide_key(words: Int64s) -> Int64s:
    """Return keys of 128-bit numbers: the sign, the bit length (7 bits), and the 56 bits behind the leading one.

    Most decimals are far shorter than their type allows (``bigint`` beside ``decimal(10, 2)`` is ``decimal(22, 2)``),
    so that their high words are all the same. Numbers of 57 bits, 17 digits, and less have keys of their own.
    """
    low, high = words[:, 0].view(np.uint64), words[:, 1].view(np.uint64)
    negative = words[:, 1] < 0
    if negative.any():
        low, high = np.where(negative, -low, low), np.where(negative, ~high + (low == 0), high)  # they wrap around
    large = high > 0
    lead = np.where(large, high, low)
    # Without the bit behind its leading one a number is not rounded up to a power of two that it is below.
    double = (lead & ~(lead >> np.uint64(1))).astype(np.float64).view(np.uint64)
    length = np.where(lead > 0, (double >> np.uint64(52)) - np.uint64(1022), np.uint64(0))
    shift = np.minimum(np.uint64(64) - length, np.uint64(63))
    top = lead << shift
    if large.any():
        top |= np.where(large, (low >> np.uint64(1)) >> (np.uint64(63) - shift), np.uint64(0))
        length += large.astype(np.uint64) << np.uint64(6)
    keys = ((length << np.uint64(56)) | ((top << np.uint64(1)) >> np.uint64(8))).view(np.int64)
    return np.where(negative, -keys, keys)


def _prefix_key(array: pa.Array) -> Int64s:
    """Return the first eight bytes of each string as a big-endian number, moved into int64's order."""
    count = len(array)
    _, offsets_buffer, data = array.buffers()
    if count == 0 or offsets_buffer is None:
        return np.zeros(count, np.int64)
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offsets = np.frombuffer(offsets_buffer, np.int64 if large else np.int32)[
        array.offset : array.offset + count + 1
    ].astype(np.int64)
    text = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    if len(text) == 0:
        return np.full(count, LOWEST)
    starts, ends = offsets[:-1], offsets[1:]
    key = np.zeros(count, np.uint64)
    for byte in range(8):
        at = starts + byte
        inside = at < ends
        key <<= np.uint64(8)
        key |= np.where(inside, text[np.minimum(at, len(text) - 1)], 0).astype(np.uint64)
    return (key ^ np.uint64(1 << 63)).view(np.int64)


def plus(keys: Int64s, amount: int) -> Int64s:
    """Return ``keys + amount``, held at int64's borders instead of wrapping; ``amount`` may be any integer."""
    wrapped = np.int64((amount - LOWEST) % (1 << 64) + LOWEST)
    moved = keys + wrapped  # arrays of integers wrap without a warning
    if amount >= 0:
        return np.where(keys > HIGHEST - amount, HIGHEST, moved)
    return np.where(keys < LOWEST - amount, LOWEST, moved)
