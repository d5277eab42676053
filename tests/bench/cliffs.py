"""Data and queries that are hard on a join, each beside a plain twin: where does a result cost more?

A twin has the same relations, scheme and rows, and about as many results, so that costs can be compared by result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from rich.table import Table

from .keys import Rng, uniform, zipf
from .outcome import Outcome, median
from .workloads import WORKLOADS, Workload

#: The name on the command line, and the scheme of all: the one that takes every query.
NAME, SCHEME = "cliffs", "matrix"

#: A result that costs this many times what it costs in the twin is told in a sentence.
MORE = 1.5


def _one_zipf(rng: Rng, stream: int, numbers: Any, domain: int) -> tuple[Any, Any]:
    """Return skewed keys of the first stream and even ones of the other: one partner, as with even keys."""
    return (zipf if stream == 0 else uniform)(rng, stream, numbers, domain)


def _one_key(rng: Rng, stream: int, numbers: Any, domain: int) -> tuple[Any, Any]:
    """Return the same i for all rows."""
    return np.zeros(len(numbers), dtype=np.int64), rng.integers(0, domain, len(numbers))


def _pair(condition: str, about: str, **more: Any) -> Workload:
    columns = more.pop("columns", "r.l AS r_l, s.l AS s_l")
    sql = f"SELECT {{hint}} {columns} FROM r JOIN s ON {condition}"
    return Workload(about, ("r", "s"), sql, schemes=(SCHEME,), **more)


def _chain(relations: int) -> Workload:
    names = tuple(f"t{number}" for number in range(relations))
    joins = [f"JOIN {b} ON {a}.{c} = {b}.{c}" for a, b, c in zip(names, names[1:], ["i", "im"] * 9, strict=False)]
    columns = ", ".join(f"{name}.l AS {name}_l" for name in names)
    sql = f"SELECT {{hint}} {columns} FROM {' '.join([names[0], *joins])}"
    return Workload(f"equality chain of {relations} relations", names, sql, schemes=(SCHEME,))


def _reading(column: str, sql: str) -> tuple[str, ...]:
    return (f"* EXCEPT ({column})", f"{sql} AS {column}")


_NARROW = "ABS(r.im - s.im) < 2"
_TEXTS = "r.str AS r_str, s.str AS s_str"

#: Twins that are no workload of their own.
PLAIN: Mapping[str, Workload] = MappingProxyType(
    {
        "band": WORKLOADS["pair_band"],
        "chain_equal": WORKLOADS["chain_equal"],
        "equal": _pair("r.i = s.i", "one partner by an even key"),
        "short_rows": _pair(_NARROW, "texts of 30 bytes are selected", columns=_TEXTS),
        "short_keys": _pair("r.s = s.s", "keys of 9 bytes", reads=_reading("s", "CONCAT('key-', i)")),
    }
)


@dataclass(frozen=True, slots=True)
class Cliff:
    """A hard workload.

    Parameters
    ----------
    workload
        What runs.
    twin
        What it is compared with, of `PLAIN`.
    why
        Why a result costs more, where it does: a sentence.
    batches
        Micro-batches for each of the twin's.
    """

    workload: Workload
    twin: str
    why: str
    batches: int = 1


CLIFFS: Mapping[str, Cliff] = MappingProxyType(
    {
        "zipf": Cliff(
            _pair("r.i = s.i", "keys of r by Zipf (1.2), of s even", keys=_one_zipf),
            "equal",
            "the unit of the heaviest key has more work than the others.",
        ),
        "one_key": Cliff(
            _pair(f"r.i = s.i AND {_NARROW}", "r.i = s.i is true of all pairs", keys=_one_key),
            "band",
            "all rows are of one unit, and its core does all the work.",
        ),
        "wide_band": Cliff(
            _pair(f"ABS(r.i - s.i) < 1000000000 AND {_NARROW}", "a band as wide as the data, and a narrow one"),
            "band",
            "both bands are searched, and one of them excludes nothing.",
        ),
        "not_equal": Cliff(
            _pair(f"r.i <> s.i AND {_NARROW}", "<> excludes next to nothing"),
            "band",
            "each candidate is compared once more.",
        ),
        "ten_relations": Cliff(
            _chain(10),
            "chain_equal",
            "a result is made of ten rows; a row probes the other streams one after the other.",
        ),
        "tiny_batches": Cliff(
            WORKLOADS["pair_band"],
            "band",
            "a micro-batch costs what it costs with however few rows.",
            batches=80,
        ),
        "wide_rows": Cliff(
            _pair(_NARROW, "texts of 2 KB are selected", columns=_TEXTS, reads=_reading("str", "REPEAT(str, 68)")),
            "short_rows",
            "the bytes of rows and results are shuffled, stored and copied.",
        ),
        "long_keys": Cliff(
            _pair("r.s = s.s", "keys of 900 bytes", reads=_reading("s", "REPEAT(CONCAT('key-', i), 100)")),
            "short_keys",
            "keys are hashed, compared, shuffled and stored in full.",
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a workload costs beside its twin, in microseconds of processor time.

    Parameters
    ----------
    tuple_, result
        By input row and by result; of the workload and of its twin.
    clock
        The same by result in microseconds of the clock.
    """

    tuple_: tuple[float, float]
    result: tuple[float, float]
    clock: tuple[float, float]


def cost(cliff: Cliff, rows: int, runs: list[Outcome], twins: list[Outcome]) -> Cost | None:
    """Return the costs by the runs with the median rate; None if one failed, or the processor time is not known."""
    both = [(cliff.workload, median(runs)), (PLAIN[cliff.twin], median(twins))]
    if any(run.problem or not run.results or run.cpu is None or not run.rate for _, run in both):
        return None
    found = []
    for workload, run in both:
        assert run.cpu is not None
        assert run.results
        tuples, used = rows * len(workload.streams), 1e6 * run.cpu.total
        found.append((used / tuples, used / run.results, 1e6 / run.rate * tuples / run.results))
    return Cost(*zip(*found, strict=True))


def cliffs_table(title: str, costs: Mapping[str, Cost]) -> Table:
    """Return a table with a line for each workload."""
    table = Table(title=title, title_justify="left")
    for column in ("workload", "beside"):
        table.add_column(column)
    for column in ("us a tuple", "its twin's", "ratio", "us a result", "its twin's", "ratio", "ratio by the clock"):
        table.add_column(column, justify="right")
    for name, found in costs.items():
        pairs = [(f"{one:,.3g}", f"{twin:,.3g}", f"{one / twin:.2f}") for one, twin in (found.tuple_, found.result)]
        table.add_row(name, CLIFFS[name].twin, *pairs[0], *pairs[1], f"{found.clock[0] / found.clock[1]:.2f}")
    return table


def sentences(costs: Mapping[str, Cost]) -> Iterator[str]:
    """Yield a sentence for each workload whose results cost much more than its twin's."""
    for name, found in costs.items():
        ratio, clock = (one / twin for one, twin in (found.result, found.clock))
        if max(ratio, clock) > MORE:
            yield f"{name}: {ratio:.1f} times per result ({clock:.1f} by the clock): {CLIFFS[name].why}"


def cliffs_document(rows: int, batches: int, costs: Mapping[str, Cost], runs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the measurements as plain data."""
    ours = {name: {"twin": CLIFFS[name].twin, **asdict(found)} for name, found in costs.items()}
    return {"workload": NAME, "rows_a_stream": rows, "batches": batches, "cliffs": ours, "engines": runs}
