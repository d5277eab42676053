"""A join node for Spark's Real-Time Mode: rows pass its operator one by one, in the JVM (`operators/realtime/`).

Spark refuses every operator in Python there. So cells are told in SQL, and the conditions of the edges become what the
operator knows: a search of an index that proposes rows, differences of integers, and expressions that Spark decides.
The scheme is `matrix`: each result arises in one cell, to which all of its rows come, so the order in which that cell
sees them is order enough. Units of other schemes would have to see rows in one order (003 section 3.3).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial, reduce
from math import isinf, prod
from operator import add, and_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

from ...errors import UnsupportedQueryError
from ..checks import AnyOf, Band, Check, Compare, EdgeSpec
from ..kernels.order_keys import HIGHEST, LOWEST
from ..schemes.routing import shape_of, shifts_of, strides_of
from ..spec import JoinSpec
from ..task.dispatch import slot_keys
from ..task.late_rows import LIMITS
from .node import Again, Prepared, prepare
from .packing import ROUTE
from .travel_types import quoted, type_name

#: The Java class that the driver calls.
ENTRY = "trijoin.realtime.RealTime"

#: The column with the time at which a row was read.
READ = "__trijoin_read"

#: The types that Spark keeps as integers.
_WHOLE = re.compile("tinyint|smallint|int|bigint|timestamp_ntz|boolean|interval (day|hour|minute|second).*|time.*")

#: What an index says of a comparison: how far a key of the right side may lie from the left one's.
_SIDES: dict[str, tuple[int | None, int | None]] = {
    "=": (0, 0),
    "<": (0, None),
    "<=": (0, None),
    ">": (None, 0),
    ">=": (None, 0),
}


@dataclass(frozen=True, slots=True)
class RealTime:
    """A join as it runs in Real-Time Mode.

    Parameters
    ----------
    frame
        Its results, in the columns of the micro-batch operator.
    spec
        What runs.
    """

    frame: DataFrame
    spec: JoinSpec


def compile_real_time(again: Again, cells: int, memory: int) -> RealTime:
    """Compile a join node for Real-Time Mode.

    Parameters
    ----------
    again
        The join as it was compiled for micro-batches.
    cells
        How many cells there may be.
    memory
        The bytes of rows that an executor keeps in memory, 0 for a part of what it has.

    Raises
    ------
    UnsupportedQueryError
        The join cannot run so.
    """
    compiling, node = again.compiling, again.node
    decision = replace(node.decision, scheme="matrix", units=cells, probes=(), options=type(node.decision.options)())
    inputs = {alias: side.anew() for alias, side in again.inputs.items()}
    made = prepare(compiling, replace(node, decision=decision), inputs)
    spec = made.spec
    _refuse(spec)
    types = [
        _types(made, rank, guarded=bool(inputs[stream.alias].guards())) for rank, stream in enumerate(spec.streams)
    ]
    conditions = Conditions(spec, types)
    plan = {
        "streams": _streams(spec, conditions),
        "orders": conditions.orders,
        "cells": spec.units,
        "memory": memory,
        "lateness": list(LIMITS.values()),
    }
    entry = getattr(compiling.spark._jvm, ENTRY)
    packed = reduce(DataFrame.unionAll, _dispatched(made, types, entry))
    timed = any(one.time for one in spec.streams)
    joined = entry.join(packed._jdf, spec.key, json.dumps(plan), conditions.texts, timed)
    columns = [
        F.col(f"joined.s{rank}.{quoted(column)}").alias(name)
        for rank, stream in enumerate(spec.streams)
        for column, name in stream.payload
    ]
    # The name tells whose results these are; few rows would do.
    found = DataFrame(joined, compiling.spark).select(*columns).observe(spec.key, F.count(F.lit(1)).alias("results"))
    return RealTime(found, spec)


def _refuse(spec: JoinSpec) -> None:
    """Raise for what shows in the inputs alone."""
    if spec.has_stateful_input or spec.above:
        raise UnsupportedQueryError(
            "a stateful operator makes the rows of an input, and the trigger realTime takes none below a join",
            "start it with another trigger",
        )


def _types(made: Prepared, rank: int, *, guarded: bool) -> dict[str, str]:
    """Return the DDL names of the types of a stream's packed columns that are stored: one at least.

    Where expressions have to be computed that nothing reads, for they may raise an error, the route has them in it.
    """
    frame = made.frames[rank]
    names = (*made.spec.streams[rank].columns, *([ROUTE] if guarded else []))
    found = {one.name: type_name(one.dataType) for one in frame.schema.fields}
    return {name: kind for name, kind in found.items() if name in names} or dict(list(found.items())[:1])


def _dispatched(made: Prepared, types: Sequence[Mapping[str, str]], entry: Any) -> Iterator[DataFrame]:
    """Yield the rows of each source as the operator takes them: each once for each of its streams and their cells."""
    sources = {id(one.source): one.source for one in made.packed}
    for number, source in sources.items():
        ranks = [rank for rank, one in enumerate(made.packed) if id(one.source) == number]
        rows = F.array(*[_row(made, rank, types) for rank in ranks])
        read = DataFrame(entry.stamped(source._jdf, READ), source.sparkSession)
        frame = read.select(READ, F.explode(rows).alias("row")).where("row IS NOT NULL")
        structs = [F.col(f"row.s{rank}") for rank in range(len(types))]
        copies = frame.select("row.rank", READ, *structs, F.posexplode("row.cells").alias("copy", "slot"))
        rank = F.when(F.col("copy") == 0, F.col("rank")).otherwise(F.bitwise_not("rank"))  # counted in its first cell
        yield copies.select(rank.alias("rank"), READ, *[f"s{rank}" for rank in range(len(types))], "slot")


def _row(made: Prepared, rank: int, types: Sequence[Mapping[str, str]]) -> Column:
    """Return a stream's row with its cells, as a struct; NULL where it cannot join."""
    packed = {name: column for name, (column, _) in made.packed[rank].columns.items()}
    structs = []
    for other, kinds in enumerate(types):
        of_type = f"struct<{', '.join(f'{quoted(name)}: {kind}' for name, kind in kinds.items())}>"
        row = F.struct(*[packed[name].alias(name) for name in kinds]) if other == rank else F.lit(None)
        structs.append(row.cast(of_type).alias(f"s{other}"))
    row = F.struct(F.lit(rank).alias("rank"), *structs, _cells(made.spec, rank, packed).alias("cells"))
    keep = made.packed[rank].keep
    needed = [
        *([] if keep is None else [keep]),
        *[packed[name].isNotNull() for name, _ in made.spec.streams[rank].required],
    ]
    return F.when(reduce(and_, needed), row) if needed else row


def _cells(spec: JoinSpec, rank: int, packed: Mapping[str, Column]) -> Column:
    """Return the keys of the cells that a row goes to, as an array: the grid of `schemes.routing.grid`."""
    shape = shape_of(spec)
    strides = strides_of(shape)
    known = dict(spec.streams[rank].dimensions)
    keys = F.array(*map(F.lit, slot_keys(prod(shape))))
    # Rows that are alike have one route; all copies of a row are made at once, so any number will do.
    packed = {**packed, ROUTE: F.xxhash64(READ, packed[ROUTE])} if ROUTE in packed else packed
    at = [
        F.pmod(packed[column], F.lit(shape[axis])) * strides[axis] for axis, column in known.items() if shape[axis] > 1
    ]
    base = reduce(add, at, F.lit(1)).cast("int")
    return F.array(*[F.element_at(keys, base + shift) for shift in shifts_of(shape, known)])


def _streams(spec: JoinSpec, conditions: Conditions) -> list[dict[str, Any]]:
    found = []
    for rank, stream in enumerate(spec.streams):
        keep = spec.keep_for(rank)
        found.append(
            {
                "name": stream.alias,
                "reads": stream.reads or stream.alias,
                "filtered": stream.filtered,
                "time": -1 if stream.time is None else conditions.column(rank, stream.time),
                "keepFor": -1 if keep is None or stream.time is None else keep,
                "indexed": [conditions.column(rank, name) for name in conditions.indexed[rank]],
            }
        )
    return found


class Conditions:
    """The conditions of a join, as its operator knows them.

    Parameters
    ----------
    spec
        The join.
    types
        By rank: DDL names of the types of the packed columns.

    Attributes
    ----------
    indexed
        By rank: the columns of which there is an index.
    texts
        What Spark decides, as SQL over a struct for each stream.
    orders
        By the rank of a row that comes: its probes.
    """

    def __init__(self, spec: JoinSpec, types: Sequence[Mapping[str, str]]) -> None:
        self._spec, self._types = spec, types
        self.indexed: list[list[str]] = [[] for _ in spec.streams]
        self.texts: list[str] = []
        self.orders = [list(self._steps(rank)) for rank in range(len(spec.streams))]

    def column(self, rank: int, name: str) -> int:
        """Return the number of a packed column in its struct."""
        return list(self._types[rank]).index(name)

    def _steps(self, start: int) -> Iterator[dict[str, Any]]:
        """Yield the probes of a row: next is always the stream that the best search leads to."""
        joined, left = [start], set(range(len(self._spec.streams))) - {start}
        while left:
            *_, target = min((self._cost(joined, one), one) for one in sorted(left))
            edges = [edge for one in joined for edge in [self._spec.edge(one, target)]]
            yield self._step(target, edges)
            joined.append(target)
            left.remove(target)

    def _cost(self, joined: Sequence[int], target: int) -> int:
        return min((cost for one in joined for cost, _ in self._searches(self._spec.edge(one, target))), default=9)

    def _step(self, target: int, edges: Sequence[EdgeSpec]) -> dict[str, Any]:
        searches = [found for edge in edges for found in self._searches(edge)]
        step: dict[str, Any] = {"rank": target}
        if searches:  # each row that comes is put into the indexes: only what is searched has one
            _, best = min(searches, key=lambda one: one[0])
            step["search"] = best()
        step["checks"] = [self._check(edge, check) for edge in edges for check in edge.checks]
        return step

    def _check(self, edge: EdgeSpec, check: Check) -> dict[str, Any]:
        if isinstance(check, AnyOf):
            branches = [[self._check(edge, one) for one in branch.checks] for branch in check.branches]
            return {"any": branches, "negated": check.negated}
        if (difference := self._difference(edge, check)) is not None:
            return {"difference": difference}
        text = self._text(edge, check)
        if text not in self.texts:
            self.texts.append(text)
        return {"condition": self.texts.index(text)}

    def _searches(self, edge: EdgeSpec) -> Iterator[tuple[int, Callable[[], dict[str, Any]]]]:
        """Yield what an index can be asked for an edge: a cost (0 is the best), and what makes the search."""
        search = partial(partial, self._search, edge)
        if edge.hash_left is not None and edge.hash_right is not None:
            yield 0, search(edge.hash_left, edge.hash_right, 0, 0)
        for check in edge.checks:
            if isinstance(check, Compare) and check.op in _SIDES and self._has_key(edge.left, check.left):
                yield (1 if check.op == "=" else 3), search(check.left, check.right, *_SIDES[check.op])
            elif isinstance(check, Band) and self._has_key(edge.left, check.left):
                least, most = _minus(check.upper), _minus(check.lower)
                scale = _scale(self._types[edge.left][check.left]) if check.arithmetic == "int" else 0
                nan = check.nan or check.upper is None
                cost = 4 if check.wide else 2 if None not in (least, most) else 3
                yield cost, search(check.left, check.right, least, most, nan=nan, scale=scale)

    def _has_key(self, rank: int, column: str) -> bool:
        kind = self._types[rank][column]
        return kind in ("float", "double", "string", "binary") or bool(
            re.match("decimal", kind) or _WHOLE.fullmatch(kind)
        )

    def _search(
        self,
        edge: EdgeSpec,
        left: str,
        right: str,
        least: float | None,
        most: float | None,
        *,
        nan: bool = False,
        scale: int = 0,
    ) -> dict[str, Any]:
        indexed = self.indexed[edge.right]
        if right not in indexed:
            indexed.append(right)
        found: dict[str, Any] = {"index": indexed.index(right), "source": edge.left, "nan": nan}
        found["column"] = self.column(edge.left, left)
        real = self._types[edge.left][left] in ("float", "double") or scale or "decimal" in self._types[edge.left][left]
        if real:
            ends = (None if one is None else float(one) / 10**scale for one in (least, most))
            found["least"], found["most"] = (None if one is None or isinf(one) else one for one in ends)
        else:
            found["leastWhole"] = None if least is None or least < LOWEST else min(int(least), HIGHEST)
            found["mostWhole"] = None if most is None or most > HIGHEST else max(int(most), LOWEST)
        return found

    def _difference(self, edge: EdgeSpec, check: Compare | Band) -> dict[str, Any] | None:
        """Return a check as bounds of a difference of integers, None if it is none."""
        if isinstance(check, Band) and check.arithmetic == "int":
            least, most = (None if one is None else int(one) for one in (check.lower, check.upper))
            limits, sql = check.limits or (None, None), check.sql
        elif isinstance(check, Compare) and check.op in ("=", "<", "<=", ">", ">="):
            bounds = {"=": (0, 0), "<": (None, -1), "<=": (None, 0), ">": (1, None), ">=": (0, None)}
            (least, most), limits, sql = bounds[check.op], (None, None), ""
        else:
            return None
        kinds = self._types[edge.left][check.left], self._types[edge.right][check.right]
        if not all(map(_WHOLE.fullmatch, kinds)):
            return None
        if any(one is not None and not LOWEST <= one <= HIGHEST for one in (least, most, *limits)):
            return None
        return {
            "left": edge.left,
            "leftColumn": self.column(edge.left, check.left),
            "right": edge.right,
            "rightColumn": self.column(edge.right, check.right),
            "least": least,
            "most": most,
            "lowest": limits[0],
            "highest": limits[1],
            "sql": sql,
        }

    def _text(self, edge: EdgeSpec, check: Compare | Band) -> str:
        """Return a check as SQL."""
        left, right = f"s{edge.left}.{quoted(check.left)}", f"s{edge.right}.{quoted(check.right)}"
        if isinstance(check, Compare):
            return f"({left} {check.op} {right})"
        if check.arithmetic != "int":
            low, high = (">" if check.lower_strict else ">="), ("<" if check.upper_strict else "<=")
            value = f"CAST({left} - {right} AS DOUBLE)"
            bounds = [(low, check.lower), (high, check.upper)]
            texts = [f"{value} {op} CAST('{bound!r}' AS DOUBLE)" for op, bound in bounds if bound is not None]
            within = f"({' AND '.join(texts)})"
            return f"({within} OR ISNAN({value}))" if check.nan and texts else within
        kind = self._types[edge.left][check.left]
        if kind.startswith("decimal"):
            value = f"{left} - {right}"
        else:  # integers, and a bound that is none of 64 bits
            value = f"CAST({left} AS DECIMAL(19, 0)) - CAST({right} AS DECIMAL(19, 0))"
        ends = [(">=", check.lower), ("<=", check.upper)]
        scale = _scale(kind)
        texts = [f"{value} {op} {Decimal(int(one)).scaleb(-scale):f}BD" for op, one in ends if one is not None]
        return f"({' AND '.join(texts)})"


def _minus(bound: float | None) -> float | None:
    return None if bound is None else -bound


def _scale(kind: str) -> int:
    return int(kind.rstrip(")").split(",")[1]) if kind.startswith("decimal") else 0
