"""Workloads: the streams and the query of each benchmark.

All streams have the six fields and about 80 bytes a tuple of 001 section 6.1: a string, a double, a long, two integers
and a string. Rows come from a seeded generator, so that every engine and every run sees the same data.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.sql.declarations import read_script

from trijoin_sql.errors import InvalidHintError, InvalidSettingError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rng = np.random.Generator

#: ``(generator, number of the stream, numbers of its rows, domain) -> (column i, column im)``.
Keys = Callable[[Rng, int, Any, int], tuple[Any, Any]]

#: The tuples of an event are shuffled within this many rows, differently in each stream.
_BLOCK = 1024

#: The streams' schema as Spark DDL.
SCHEMA = "s STRING, d DOUBLE, l BIGINT, i INT, im INT, str STRING"


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


def _mixed(numbers: Any) -> Any:
    """Return 64 well mixed bits for each number (the finaliser of SplitMix64)."""
    with np.errstate(over="ignore"):
        bits = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Workload:
    """One benchmark.

    Parameters
    ----------
    about
        A description, and the paper it comes from.
    streams
        Names of the streams.
    sql
        The query; ``{hint}`` stands after SELECT.
    keys
        How the integer columns are drawn.
    domain
        The range of keys for a number of rows a stream: it sets how many partners a tuple finds.
    schemes
        Schemes that are compared by default; ``/pair`` stores their intermediates as pairs instead of packs.
    windowed
        Whether tuples have an event time, `EVENT_TIME`, and the query a window of `WINDOW` seconds: half of the rows
        that a stream has, or has stored before. The kept rows and the partners of a tuple then stay constant.
    reads
        What the query reads of a stream, as SQL over the six fields.
    """

    about: str
    streams: tuple[str, ...]
    sql: str
    keys: Keys = uniform
    domain: Callable[[int], int] = lambda rows: rows
    schemes: tuple[str, ...] = ()
    windowed: bool = False
    reads: tuple[str, ...] = ("*",)


#: The column with a tuple's event time, how late its stream may be, and the seconds of a window.
EVENT_TIME, DELAY, WINDOW = "ts", "1 second", 60


def with_event_time(workload: Workload, frame: DataFrame, rows: int) -> DataFrame:
    """Return a stream of a workload in the form that its query reads.

    Parameters
    ----------
    frame
        The six fields.
    rows
        Rows of the stream, of which half are in a window.
    """
    frame = frame.selectExpr(*columns(workload, rows))
    late = watermark(workload)
    return frame.withWatermark(*late) if late else frame


def columns(workload: Workload, rows: int) -> list[str]:
    """Return what a workload's query reads of a stream with this many rows, as SQL over the six fields."""
    apart = max(2 * WINDOW * 1_000_000 // rows, 1)
    return [*workload.reads, *([f"timestamp_micros(l * {apart}) AS {EVENT_TIME}"] if workload.windowed else [])]


def watermark(workload: Workload) -> tuple[str, str] | None:
    """Return the column and the delay of a stream's watermark, if it has one."""
    return (EVENT_TIME, DELAY) if workload.windowed else None


def declarations(workload: Workload) -> str:
    """Return the streams of a workload as statements of a job."""
    time = f", {EVENT_TIME} TIMESTAMP" if workload.windowed else ""
    watermark = f" WATERMARK {EVENT_TIME} DELAY OF INTERVAL {DELAY}" if workload.windowed else ""
    return "".join(f"CREATE STREAM {one} ({SCHEMA}{time}) USING parquet{watermark};" for one in workload.streams)


_OUT = "SELECT {hint} r.l AS r_l, s.l AS s_l, t.l AS t_l "

_PAIR = f"SELECT {{{{hint}}}} r.l AS r_l, s.l AS s_l FROM r {{kind}} s ON ABS(r.i - s.i) < 2 WITHIN {WINDOW} SECONDS"

WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {
        "chain_band": Workload(
            "001 section 6.1, chain: |r.i - s.i| < 2 AND |s.im - t.im| < 2; a tuple finds three partners a stream",
            ("r", "s", "t"),
            _OUT + "FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.im - t.im) < 2",
            schemes=("semi_symmetric", "matrix", "tree"),
        ),
        "chain_float": Workload(
            "chain_band over DOUBLE: the same rows and results, its columns cast and closed bounds",
            ("r", "s", "t"),
            _OUT + "FROM r JOIN s ON ABS(CAST(r.i AS DOUBLE) - CAST(s.i AS DOUBLE)) <= 1 "
            "JOIN t ON ABS(CAST(s.im AS DOUBLE) - CAST(t.im AS DOUBLE)) <= 1",
            schemes=("semi_symmetric", "matrix", "tree"),
        ),
        "cyclic_band": Workload(
            "001 section 6.1, cyclic: |r.i - s.i| < 2 AND |s.im - t.im| < 2 AND |r.im - t.i| < 2; seven partners",
            ("r", "s", "t"),
            _OUT + "FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.im - t.im) < 2 AND ABS(r.im - t.i) < 2",
            keys=events,
            domain=lambda rows: max(rows // 2, 1),
            schemes=("symmetric", "matrix", "tree"),
        ),
        "chain_dense": Workload(
            "001 figure 19, chain: as chain_band, but a tuple finds seven partners a stream on average over the run",
            ("r", "s", "t"),
            _OUT + "FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.im - t.im) < 2",
            domain=lambda rows: max(rows * 3 // 14, 1),
            schemes=("semi_symmetric", "semi_symmetric/pair", "tree"),
        ),
        "cyclic_dense": Workload(
            "001 figure 18, cyclic, each pair of streams in a band: seven partners a stream on average over the run",
            ("r", "s", "t"),
            _OUT + "FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.im - t.im) < 2 AND ABS(r.im - t.i) < 2",
            keys=events,
            domain=lambda rows: max(rows * 3 // 13, 1),
            schemes=("symmetric", "symmetric/pair", "tree"),
        ),
        "chain_window": Workload(
            "001 figures 12 and 20, chain_dense in a sliding window: seven partners a stream, all the time",
            ("r", "s", "t"),
            _OUT + f"FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.im - t.im) < 2 WITHIN {WINDOW} SECONDS",
            domain=lambda rows: max(rows * 3 // 14, 1),
            schemes=("semi_symmetric", "matrix", "tree"),
            windowed=True,
        ),
        "cyclic_window": Workload(
            "001 figures 10 and 20, cyclic_dense in a sliding window: seven partners a stream, all the time",
            ("r", "s", "t"),
            _OUT + "FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.im - t.im) < 2 AND ABS(r.im - t.i) < 2 "
            f"WITHIN {WINDOW} SECONDS",
            keys=events,
            domain=lambda rows: max(rows // 4, 1),
            schemes=("symmetric", "matrix", "tree"),
            windowed=True,
        ),
        "chain_equal": Workload(
            "equality chain: r.i = s.i AND s.im = t.im; one partner a stream",
            ("r", "s", "t"),
            _OUT + "FROM r JOIN s ON r.i = s.i JOIN t ON s.im = t.im",
            schemes=("semi_symmetric", "matrix", "tree"),
        ),
        "common_key": Workload(
            "one key in all three streams: r.i = s.i AND s.i = t.i",
            ("r", "s", "t"),
            _OUT + "FROM r JOIN s ON r.i = s.i JOIN t ON s.i = t.i",
            schemes=("symmetric", "matrix"),
        ),
        "zipf_key": Workload(
            "003 section 3.2.2: two streams, a skewed key (Zipf) and a narrow band: r.i = s.i AND |r.im - s.im| < 20",
            ("r", "s"),
            "SELECT {hint} r.l AS r_l, s.l AS s_l FROM r JOIN s ON r.i = s.i AND ABS(r.im - s.im) < 20",
            keys=zipf,
            domain=lambda rows: max(rows // 10, 10),
            schemes=("biclique", "matrix"),
        ),
        "zipf_chain": Workload(
            "zipf_key, then a unique key: r.i = s.i AND |r.im - s.im| < 20, s.l = t.l",
            ("r", "s", "t"),
            _OUT + "FROM r JOIN s ON r.i = s.i AND ABS(r.im - s.im) < 20 JOIN t ON s.l = t.l",
            keys=zipf,
            domain=lambda rows: max(rows // 10, 10),
            schemes=("semi_symmetric", "matrix"),
        ),
        "pair_band": Workload(
            "003 section 6.1, Band: two streams, |r.i - s.i| < 2",
            ("r", "s"),
            "SELECT {hint} r.l AS r_l, s.l AS s_l FROM r JOIN s ON ABS(r.i - s.i) < 2",
            schemes=("biclique", "matrix"),
        ),
        "pair_window": Workload(
            "pair_band in a sliding window, in which some tuples find no partner",
            ("r", "s"),
            _PAIR.format(kind="JOIN"),
            schemes=("biclique", "matrix"),
            windowed=True,
        ),
        "left_window": Workload(
            "pair_window as a LEFT JOIN, which also gives the tuples of r without a partner",
            ("r", "s"),
            _PAIR.format(kind="LEFT JOIN"),
            schemes=("matrix",),
            windowed=True,
        ),
    }
)


def query(workload: Workload, engine: str | None = None) -> str:
    """Return a workload's SQL, with hints for ``SCHEME[/INTERMEDIATES][@ROUTING[:SUBGROUPS]]``."""
    if not engine:
        return workload.sql.format(hint="")
    scheme, _, routing = engine.partition("@")
    name, _, intermediates = scheme.partition("/")
    routing, _, subgroups = routing.partition(":")
    hints = [f"SCHEME('{name}')"]
    hints += [f"INTERMEDIATES('{intermediates}')"] if intermediates else []
    hints += [f"ROUTING('{routing}'{f', {subgroups}' if subgroups else ''})"] if routing else []
    return workload.sql.format(hint=f"/*+ {', '.join(hints)} */")


def check(workload: Workload, name: str, engine: str, units: int) -> None:
    """Check that a workload can run under a scheme, with its intermediates and routing, in a number of units.

    Raises
    ------
    InvalidSettingError
        It cannot; the message gives the reason.
    """
    try:
        rewrite(query(workload, engine), read_script(declarations(workload))[0])
    except InvalidHintError as error:
        raise InvalidSettingError("--scheme", engine, f"{name}: {error.getMessageParameters()['reason']}") from None
    subgroups = engine.partition(":")[2]
    if subgroups and units % int(subgroups):
        told = f"{units} units cannot be divided evenly into {subgroups} subgroups"
        raise InvalidSettingError("--scheme", engine, f"{name}: {told}")


def table(workload: Workload, stream: int, rng: Rng, first: int, rows: int, domain: int) -> pa.Table:
    """Return some tuples of a stream (given by its number); ``l`` counts from ``first``."""
    numbers = np.arange(first, first + rows)
    i, im = workload.keys(rng, stream, numbers, domain)
    return pa.table(
        {
            "s": pa.array([f"s{n % 1000:07d}" for n in numbers]),
            "d": rng.random(rows),
            "l": numbers,
            "i": pa.array(i.astype(np.int32)),
            "im": pa.array(im.astype(np.int32)),
            "str": pa.array([f"payload-{n % 100000:022d}" for n in numbers]),
        }
    )


def write_files(workload: Workload, folder: Path, rows: int, batches: int, seed: int) -> None:
    """Write each stream as one Parquet file a micro-batch, in order.

    Parameters
    ----------
    rows
        Rows of each stream.
    """
    domain = workload.domain(rows)
    for number, stream in enumerate(workload.streams):
        rng = np.random.default_rng([seed, number])
        (folder / stream).mkdir(parents=True)
        for batch in range(batches):
            first = rows * batch // batches
            path = folder / stream / f"{batch:05d}.parquet"
            pq.write_table(table(workload, number, rng, first, rows * (batch + 1) // batches - first, domain), path)
            os.utime(path, (1_000_000_000 + batch, 1_000_000_000 + batch))
