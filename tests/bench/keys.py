"""Keys of generated streams: how the integers that benchmarks join by are distributed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator

#: ``(generator, number of the stream, numbers of its rows, domain) -> (column i, column im)``.
Keys = Callable[[Rng, int, Any, int], tuple[Any, Any]]

#: The tuples of an event are shuffled within this many rows, differently in each stream.
_BLOCK = 1024


def uniform(rng: Rng, stream: int, numbers: Any, domain: int) -> tuple[Any, Any]:
    """Return keys that are all equally likely."""
    return rng.integers(0, domain, len(numbers)), rng.integers(0, domain, len(numbers))


def zipf(rng: Rng, stream: int, numbers: Any, domain: int) -> tuple[Any, Any]:
    """Return keys with a few very frequent ones (Zipf, exponent 1.2; the heaviest has about a fifth of the rows)."""
    return np.minimum(rng.zipf(1.2, len(numbers)), domain) - 1, rng.integers(0, domain, len(numbers))


def events(rng: Rng, stream: int, numbers: Any, domain: int) -> tuple[Any, Any]:
    """Return uniform keys of three streams that each saw the same events, in different orders.

    Independent keys would leave a cyclic join of small bands a few hundred results whatever the number of rows; here
    every event is a result, in addition to chance results. A tuple finds one partner more than by chance.
    """
    at = numbers % _BLOCK
    event = numbers - at + (at * (2 * stream + 1) + 341 * stream) % _BLOCK
    x, y, z = (_mixed(3 * event + axis) % np.uint64(domain) for axis in range(3))
    return ((x, z), (x, y), (z, y))[stream]


def foreign(rng: Rng, stream: int, numbers: Any, domain: int) -> tuple[Any, Any]:
    """Return a key of the first stream, and uniform references to it in the second: one partner each."""
    rows = len(numbers)
    return numbers % domain if stream == 0 else rng.integers(0, domain, rows), rng.integers(0, domain, rows)


def foreign_zipf(rng: Rng, stream: int, numbers: Any, domain: int) -> tuple[Any, Any]:
    """Return a key of the first stream, and skewed references to it (`zipf`): one partner each, some of them heavy."""
    return foreign(rng, stream, numbers, domain) if stream == 0 else zipf(rng, stream, numbers, domain)


def orders(rng: Rng, stream: int, numbers: Any, domain: int) -> tuple[Any, Any]:
    """Return keys of TPC-H's customer, orders, lineitem and supplier; lineitem has as many rows as ``domain``.

    ``i`` and ``im`` are a customer's key and nation, an order's key and customer, a line's order and supplier, a
    supplier's key and nation.
    """
    own, other = ((1, 25), (1, domain // 40), (domain // 4, domain // 600), (1, 25))[stream]
    i = rng.integers(0, max(own, 1), len(numbers)) if stream == 2 else numbers
    return i, rng.integers(0, max(other, 1), len(numbers))


#: The rows of TPC-H's region, nation, supplier, partsupp and part in 002's experiments, by those of partsupp.
PARTS = (5 / 80_000, 25 / 80_000, 1 / 8, 1.0, 1 / 4)


def parts(rng: Rng, stream: int, numbers: Any, domain: int) -> tuple[Any, Any]:
    """Return keys of TPC-H's region, nation, supplier, partsupp and part; partsupp has as many rows as ``domain``.

    ``i`` and ``im`` are a region's key, a nation's key and region, a supplier's key and nation, a partsupp's supplier
    and part, a part's key.
    """
    regions, nations, suppliers, _, every_part = (max(round(share * domain), 1) for share in PARTS)
    i = rng.integers(0, suppliers, len(numbers)) if stream == 3 else numbers
    return i, rng.integers(0, (1, regions, nations, every_part, 1)[stream], len(numbers))


def _mixed(numbers: Any) -> Any:
    """Return 64 well mixed bits for each number (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        bits = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))
