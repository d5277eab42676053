"""Workloads: the streams and the query of each benchmark.

All streams have the six fields and about 80 bytes a tuple of 001 section 6.1: a string, a double, a long, two integers
and a string. Rows come from a seeded generator, so that every engine and every run sees the same data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.sql.declarations import read_script

from trijoin_sql.errors import InvalidHintError, InvalidSettingError

from .keys import PARTS, Keys, Rng, events, foreign, foreign_zipf, orders, parts, uniform, zipf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The streams' schema as Spark DDL.
SCHEMA = "s STRING, d DOUBLE, l BIGINT, i INT, im INT, str STRING"


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
    window
        Seconds of the query's window, ``{window}`` in its SQL; 0 for none. Tuples then have an event time,
        `EVENT_TIME`, and half of the rows that a stream has, or has stored before, come in `WINDOW` seconds. The kept
        rows and the partners of a tuple then stay constant.
    reads
        What the query reads of a stream, as SQL over the six fields.
    shares
        The rows of each stream, as shares of the rows that are asked for; empty for as many of each.
    mode
        The output mode: ``complete`` for a query with GROUP BY.
    """

    about: str
    streams: tuple[str, ...]
    sql: str
    keys: Keys = uniform
    domain: Callable[[int], int] = lambda rows: rows
    schemes: tuple[str, ...] = ()
    window: int = 0
    reads: tuple[str, ...] = ("*",)
    shares: tuple[float, ...] = ()
    mode: str = "append"

    @property
    def windowed(self) -> bool:
        """Whether tuples have an event time, and the query a window."""
        return self.window > 0

    @property
    def timed(self) -> bool:
        """Whether latency can be measured: streams have equally many rows, and results show their tuples."""
        return not self.shares and self.mode == "append"

    def sizes(self, rows: int) -> tuple[int, ...]:
        """Return how many rows each stream has where this many are asked for."""
        return tuple(max(round(share * rows), 1) for share in self.shares or (1.0,) * len(self.streams))


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

_PAIR = "SELECT {hint} r.l AS r_l, s.l AS s_l FROM r JOIN s ON "

_WITHIN = " WITHIN {window} SECONDS"


def _with_features(count: int, kinds: tuple[str, str] = ("LEFT JOIN", "LEFT ASOF JOIN")) -> Workload:
    """Return an event with feature streams, by joins of two kinds in turns."""
    names, joins = "abcdefgh"[:count], []
    for at, one in enumerate(names):
        kind, near = kinds[at % 2], f"{one}.ts BETWEEN r.ts - INTERVAL {{window}} SECONDS AND r.ts"
        if "ASOF" in kind:
            joins.append(f"{kind} {one} MATCH_CONDITION (r.ts >= {one}.ts) ON r.i = {one}.i AND {near}")
        else:
            joins.append(f"{kind} {one} ON ABS(r.i - {one}.i) < 2 AND {near}")
    listed = ", ".join(f"{one}.l AS {one}_l" for one in ("r", *names))
    return Workload(
        f"an event with {count} feature streams, {' and '.join(dict.fromkeys(kinds))}; three partners in a band",
        ("r", *names),
        f"SELECT {{hint}} {listed} FROM r {' '.join(joins)}",
        schemes=("matrix",) if kinds == ("JOIN", "JOIN") else ("matrix", "matrix+NO_JOIN_TREE"),
        window=WINDOW,
    )


def _tested(kind: str) -> Workload:
    """Return a join of two streams with a condition that Spark tests on the pairs of a band."""
    return Workload(
        f"{kind} of two streams, three partners in a band, of which a condition that only Spark evaluates takes two",
        ("r", "a"),
        f"SELECT {{hint}} r.l AS r_l, a.l AS a_l FROM r {kind} a ON ABS(r.i - a.i) < 2 AND r.i * a.i % 3 <> 1 AND "
        "a.ts BETWEEN r.ts - INTERVAL {window} SECONDS AND r.ts",
        schemes=("matrix",),
        window=WINDOW,
    )


def _star(about: str, rows_of_key: int) -> Workload:
    """Return 004's star of returns: by one key, with so many rows of the first stream."""
    return Workload(
        about,
        ("sr", "cu", "wr", "cr"),
        "SELECT {hint} sr.l AS sr_l, cu.l AS cu_l, wr.l AS wr_l, cr.l AS cr_l FROM sr "
        "JOIN cu ON cu.i = sr.i JOIN wr ON cu.i = wr.i JOIN cr ON cu.i = cr.i",
        domain=lambda rows: max(rows // rows_of_key, 1),
        schemes=("matrix", "tree"),
        shares=(1.0, 0.17, 0.25, 0.5),
    )


#: Three nations, and seven years, as in TPC-H's Q7.
_NATIONS = ("* EXCEPT (s)", "ELT(l % 3 + 1, 'FRANCE', 'GERMANY', 'PERU') AS s")

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
        "cyclic_loose": Workload(
            "cyclic_band with independent keys, in bands so wide that about twenty cycles a tuple close by chance",
            ("r", "s", "t"),
            _OUT + "FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.im - t.im) < 2 AND ABS(r.im - t.i) < 2",
            domain=lambda rows: max(round(rows ** (2 / 3)), 1),
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
            _OUT + "FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.im - t.im) < 2" + _WITHIN,
            domain=lambda rows: max(rows * 3 // 14, 1),
            schemes=("semi_symmetric", "matrix", "tree"),
            window=WINDOW,
        ),
        "cyclic_window": Workload(
            "001 figures 10 and 20, cyclic_dense in a sliding window: seven partners a stream, all the time",
            ("r", "s", "t"),
            _OUT
            + "FROM r JOIN s ON ABS(r.i - s.i) < 2 JOIN t ON ABS(s.im - t.im) < 2 AND ABS(r.im - t.i) < 2"
            + _WITHIN,
            keys=events,
            domain=lambda rows: max(rows // 4, 1),
            schemes=("symmetric", "matrix", "tree"),
            window=WINDOW,
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
            _PAIR + "r.i = s.i AND ABS(r.im - s.im) < 20",
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
            _PAIR + "ABS(r.i - s.i) < 2",
            schemes=("biclique", "matrix"),
        ),
        "pair_window": Workload(
            "pair_band in a sliding window, in which some tuples find no partner",
            ("r", "s"),
            _PAIR + "ABS(r.i - s.i) < 2" + _WITHIN,
            schemes=("biclique", "matrix"),
            window=WINDOW,
        ),
        "left_window": Workload(
            "pair_window as a LEFT JOIN, which also gives the tuples of r without a partner",
            ("r", "s"),
            _PAIR.replace("JOIN", "LEFT JOIN") + "ABS(r.i - s.i) < 2" + _WITHIN,
            schemes=("matrix",),
            window=WINDOW,
        ),
        "features_2": _with_features(2),
        "features_4": _with_features(4),
        "features_8": _with_features(8),
        "features_left": _with_features(2, ("LEFT JOIN", "LEFT JOIN")),
        "features_inner": _with_features(2, ("JOIN", "JOIN")),
        "tested_left": _tested("LEFT JOIN"),
        "tested_inner": _tested("JOIN"),
        "pair_equal": Workload(
            "003 section 6.1, the join of Q5: a key of r, and uniform references to it in s; one partner",
            ("r", "s"),
            _PAIR + "r.i = s.i",
            keys=foreign,
            schemes=("biclique", "biclique@random", "biclique@contrand:2"),
        ),
        "pair_theta": Workload(
            "pair_equal written as a comparison that no key routes: ABS(r.i - s.i) < 1; the same results",
            ("r", "s"),
            _PAIR + "ABS(r.i - s.i) < 1",
            keys=foreign,
            schemes=("biclique", "matrix"),
        ),
        "pair_zipf": Workload(
            "003 section 3.2.2: pair_equal with references by Zipf (1.2), a fifth of them to one row",
            ("r", "s"),
            _PAIR + "r.i = s.i",
            keys=foreign_zipf,
            schemes=("biclique", "biclique@random", "biclique@contrand:2"),
        ),
        "equal_window": Workload(
            "pair_equal in a sliding window, three of whose rows a tuple meets",
            ("r", "s"),
            _PAIR + "r.i = s.i" + _WITHIN,
            domain=lambda rows: max(rows // 6, 1),
            schemes=("biclique", "biclique@random", "biclique@contrand:2"),
            window=WINDOW,
        ),
        "q5_revenue": Workload(
            "003 appendix B, Q5: pair_equal, SUM by the nation of r",
            ("r", "s"),
            "SELECT {hint} r.s AS nation, SUM(s.d) AS revenue FROM r JOIN s ON r.i = s.i GROUP BY r.s",
            keys=foreign,
            schemes=("biclique", "biclique@random"),
            reads=("* EXCEPT (s)", "CONCAT('nation-', l % 25) AS s"),
            mode="complete",
        ),
        "q7_pair": Workload(
            "003 section 6.1, the join of Q7: pair_equal of two nations, by an OR over both streams",
            ("r", "s"),
            _PAIR + "r.i = s.i AND ((r.s = 'FRANCE' AND s.s = 'GERMANY') OR (r.s = 'GERMANY' AND s.s = 'FRANCE'))",
            keys=foreign,
            schemes=("biclique", "biclique@random"),
            reads=_NATIONS,
        ),
        "q7_volume": Workload(
            "003 appendix B, Q7: q7_pair, SUM by both nations and a year",
            ("r", "s"),
            "SELECT {hint} r.s AS supplier, s.s AS customer, s.l % 7 AS year, SUM(s.d) AS volume FROM r JOIN s "
            "ON r.i = s.i AND ((r.s = 'FRANCE' AND s.s = 'GERMANY') OR (r.s = 'GERMANY' AND s.s = 'FRANCE')) "
            "GROUP BY r.s, s.s, s.l % 7",
            keys=foreign,
            schemes=("biclique", "biclique@random"),
            reads=_NATIONS,
            mode="complete",
        ),
        "band_count": Workload(
            "003 appendix B, Band: pair_band, COUNT, MIN and MAX by the nation of r",
            ("r", "s"),
            "SELECT {hint} r.s AS nation, COUNT(*) AS pairs, MIN(s.d) AS least, MAX(s.d) AS most "
            "FROM r JOIN s ON ABS(r.i - s.i) < 2 GROUP BY r.s",
            schemes=("biclique",),
            reads=("* EXCEPT (s)", "CONCAT('nation-', l % 25) AS s"),
            mode="complete",
        ),
        "tpch_q2": Workload(
            "002 section 5, Q2: region, nation, supplier, partsupp, part in a line, by comparisons that no key routes",
            ("r", "n", "s", "ps", "p"),
            "SELECT {hint} r.l AS r_l, n.l AS n_l, s.l AS s_l, ps.l AS ps_l, p.l AS p_l FROM r "
            "JOIN n ON ABS(r.i - n.im) < 1 JOIN s ON ABS(n.i - s.im) < 1 JOIN ps ON ABS(s.i - ps.i) < 1 "
            "JOIN p ON ABS(ps.im - p.i) < 1",
            keys=parts,
            schemes=("matrix", "tree"),
            shares=PARTS,
        ),
        "tpch_q3": Workload(
            "002 section 5, Q3: customer, orders, lineitem in a line, by comparisons that no key routes",
            ("c", "o", "l"),
            "SELECT {hint} c.l AS c_l, o.l AS o_l, l.l AS l_l FROM c "
            "JOIN o ON ABS(c.i - o.im) < 1 JOIN l ON ABS(o.i - l.i) < 1",
            keys=orders,
            schemes=("semi_symmetric", "matrix", "tree"),
            shares=(1 / 40, 1 / 4, 1.0),
        ),
        "tpch_q5": Workload(
            "002 section 5, Q5: customer, orders, lineitem, supplier in a ring, by comparisons that no key routes",
            ("c", "o", "l", "s"),
            "SELECT {hint} c.l AS c_l, o.l AS o_l, l.l AS l_l, s.l AS s_l FROM c "
            "JOIN o ON ABS(c.i - o.im) < 1 JOIN l ON ABS(o.i - l.i) < 1 "
            "JOIN s ON ABS(l.im - s.i) < 1 AND ABS(c.im - s.im) < 1",
            keys=orders,
            schemes=("matrix", "tree"),
            shares=(1 / 40, 1 / 4, 1.0, 1 / 600),
        ),
        "star_four": _star(
            "004 section 4.1: store_returns, customer, web_returns and catalog_returns by one key, 13 results a key", 5
        ),
        "star_many": _star(
            "the same with 14, 2.4, 3.5 and 7 rows a key: a tree stores 4.6 times its inputs, as in the paper", 14
        ),
    }
)


#: ``SCHEME[(ORDER)][/INTERMEDIATES][@ROUTING[:SUBGROUPS]][*UNITS][+HINT]``, as hints write each of them.
ENGINE = re.compile(
    r"(?P<scheme>\w+)(?P<tree>\(.*\))?(/(?P<intermediates>\w*))?(@(?P<routing>\w*)(:(?P<subgroups>\w*))?)?"
    r"(\*(?P<units>\w+))?(\+(?P<more>\w+))?"
)


def query(workload: Workload, engine: str | None = None) -> str:
    """Return a workload's SQL, with the hints of an engine, as `ENGINE` reads it.

    Raises
    ------
    InvalidSettingError
        The engine is written in another form.
    """
    said = ENGINE.fullmatch(engine or "any")
    if said is None:
        form = "write SCHEME, and behind it /pair, @ROUTING:SUBGROUPS or *UNITS, in this order"
        raise InvalidSettingError("--scheme", engine, form)
    hints = []
    if engine:
        subgroups = f", {said['subgroups']}" if said["subgroups"] else ""
        hints.append(f"SCHEME('{said['scheme']}{said['tree'] or ''}')")
        hints += [f"INTERMEDIATES('{said['intermediates']}')"] if said["intermediates"] else []
        hints += [f"ROUTING('{said['routing']}'{subgroups})"] if said["routing"] else []
        hints += [f"UNITS({said['units']})"] if said["units"] else []
        hints += [said["more"]] if said["more"] else []
    hint = f"/*+ {', '.join(hints)} */" if hints else ""
    return workload.sql.format(hint=hint, window=workload.window)


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
    said = ENGINE.fullmatch(engine)
    assert said is not None, "query has read it"
    units, subgroups = int(said["units"] or units), said["subgroups"]
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
        Rows of each stream, or of the largest one.
    """
    domain = workload.domain(rows)
    for number, (stream, own) in enumerate(zip(workload.streams, workload.sizes(rows), strict=True)):
        rng = np.random.default_rng([seed, number])
        (folder / stream).mkdir(parents=True)
        for batch in range(batches):
            first = own * batch // batches
            path = folder / stream / f"{batch:05d}.parquet"
            pq.write_table(table(workload, number, rng, first, own * (batch + 1) // batches - first, domain), path)
            os.utime(path, (1_000_000_000 + batch, 1_000_000_000 + batch))
