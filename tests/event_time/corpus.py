"""Streaming SQL with state above, below and beside a join: an enabled session against Spark batch and Spark streams.

A query is put together from a join (by equality, which Spark runs on streams too, or by a band, which it refuses), a
condition in time, and what stands around it. Its rows must be those of the same SQL in Spark batch; where Spark's own
streams give others (it drops late rows), theirs will do. ``python -m tests.event_time.corpus`` runs all of them.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

import trijoin_sql
from tests.sessions import local_session
from tests.streaming.differential import Bag, Tables, bag

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
SCHEMA = "id int, x int, k int, ts timestamp"
ARROW = pa.schema([("id", pa.int32()), ("x", pa.int32()), ("k", pa.int32()), ("ts", pa.timestamp("us", "UTC"))])
Sql = Callable[[str], DataFrame]

#: How much later s is than r, as a condition between their times.
TIMES = {
    "later": "s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 SECONDS",
    "earlier": "s.ts BETWEEN r.ts - INTERVAL 5 SECONDS AND r.ts",
    "around": "s.ts BETWEEN r.ts - INTERVAL 3 SECONDS AND r.ts + INTERVAL 6 SECONDS",
}
JOINS = {"equal": "r.k = s.k", "band": "ABS(r.x - s.x) <= 2"}
NEAR = "t.k = {0}.k AND t.ts BETWEEN {0}.ts - INTERVAL 2 SECONDS AND {0}.ts + INTERVAL 4 SECONDS"
WINDOWS = "SELECT window(ts, '5 seconds') AS w, k, count(*) AS n, max(x) AS x FROM {0} GROUP BY 1, 2"
GROUPED = f"(SELECT window_time(w) AS ts, k, n, x FROM ({WINDOWS}))"

#: What stands above the join, by name: SQL with {join} for FROM and what follows it.
ABOVE = {
    "nothing": "SELECT r.id, s.id AS sid, r.ts, s.ts AS sts {join}",
    "window r": "SELECT window(r.ts, '4 seconds').start AS w, count(*) AS n {join} GROUP BY window(r.ts, '4 seconds')",
    "window s": "SELECT window(s.ts, '4 seconds').start AS w, count(*) AS n {join} GROUP BY window(s.ts, '4 seconds')",
    "sliding": "SELECT window(r.ts, '6 seconds', '3 seconds').end AS w, r.k, sum(s.x) AS n {join} "
    "GROUP BY window(r.ts, '6 seconds', '3 seconds'), r.k",
    "session s": "SELECT session_window(s.ts, '2 seconds').start AS w, s.k, count(*) AS n {join} "
    "GROUP BY session_window(s.ts, '2 seconds'), s.k",
    "group by time": "SELECT r.ts, count(*) AS n {join} GROUP BY r.ts",
    "distinct r": "SELECT DISTINCT r.k, r.ts {join}",
    "distinct s": "SELECT DISTINCT s.k, s.ts {join}",
    "left by r": "SELECT r.id, s.id AS sid, t.id AS tid {join} LEFT JOIN t ON " + NEAR.format("r"),
    "left by s": "SELECT r.id, s.id AS sid, t.id AS tid {join} LEFT JOIN t ON " + NEAR.format("s"),
    "right": "SELECT a.id, a.sid, t.id AS tid FROM (SELECT r.id, s.id AS sid, r.k, r.ts {join}) a RIGHT JOIN t ON "
    + NEAR.format("a"),
    "full": "SELECT a.id, a.sid, t.id AS tid FROM (SELECT r.id, s.id AS sid, s.k, s.ts {join}) a FULL JOIN t ON "
    + NEAR.format("a"),
    "semi": "SELECT a.id, a.sid FROM (SELECT r.id, s.id AS sid, s.k, s.ts {join}) a LEFT SEMI JOIN t ON "
    + NEAR.format("a"),
    "nullable": "SELECT t.id, a.id AS aid, a.sid FROM t LEFT JOIN (SELECT r.id, s.id AS sid, s.k, s.ts {join}) a ON "
    + NEAR.format("a"),
    "cte": "WITH a AS (SELECT r.id, s.k, s.ts {join}) SELECT window(a.ts, '4 seconds').start AS w, count(*) AS n "
    "FROM a GROUP BY window(a.ts, '4 seconds')",
    "two windows": "SELECT window(window_time(w), '12 seconds').start AS v, sum(n) AS n FROM (SELECT "
    "window(r.ts, '4 seconds') AS w, count(*) AS n {join} GROUP BY 1) GROUP BY window(window_time(w), '12 seconds')",
    "beside": "SELECT window(ts, '4 seconds').start AS w, count(*) AS n FROM (SELECT r.ts {join} UNION ALL SELECT ts "
    "FROM t) GROUP BY window(ts, '4 seconds')",
}

#: What stands below it: SQL, with a condition in which {on} joins r and s.
BELOW = {
    "windows": f"SELECT a.ts, a.n, s.id FROM {GROUPED.format('r')} a JOIN s ON {{ka}} AND s.ts BETWEEN "
    "a.ts - INTERVAL 6 SECONDS AND a.ts",
    "windows, later": f"SELECT a.ts, a.n, s.id FROM {GROUPED.format('r')} a JOIN s ON {{ka}} AND s.ts BETWEEN a.ts "
    "AND a.ts + INTERVAL 4 SECONDS",
    "windows of both": f"SELECT a.ts, a.n, s.n AS m FROM {GROUPED.format('r')} a JOIN {GROUPED.format('s')} s ON "
    "{ka} AND s.ts BETWEEN a.ts - INTERVAL 6 SECONDS AND a.ts",
    "window above windows": f"SELECT window(a.ts, '10 seconds').start AS w, count(*) AS n FROM {GROUPED.format('r')} a "
    "JOIN s ON {ka} AND s.ts BETWEEN a.ts - INTERVAL 6 SECONDS AND a.ts GROUP BY window(a.ts, '10 seconds')",
    "distinct": "SELECT a.k, a.ts, s.id FROM (SELECT DISTINCT k, x, ts FROM r) a JOIN s ON {ka} AND s.ts BETWEEN "
    "a.ts AND a.ts + INTERVAL 5 SECONDS",
    "outer": f"SELECT a.id, a.tid, s.id AS sid FROM (SELECT r.id, r.k, r.x, r.ts, t.id AS tid FROM r LEFT JOIN t ON "
    f"{NEAR.format('r')}) a JOIN s ON {{ka}} AND s.ts BETWEEN a.ts AND a.ts + INTERVAL 5 SECONDS",
    "outer, window above": "SELECT window(a.ts, '4 seconds').start AS w, count(*) AS n FROM (SELECT r.id, r.k, r.x, "
    f"r.ts, t.id AS tid FROM r LEFT JOIN t ON {NEAR.format('r')}) a JOIN s ON {{ka}} AND s.ts BETWEEN a.ts AND a.ts + "
    "INTERVAL 5 SECONDS GROUP BY window(a.ts, '4 seconds')",
}


@dataclass(frozen=True)
class Case:
    """A query: its SQL (in batch the reference's), what goes on with it, its mode, the delays of the watermarks."""

    name: str
    sql: str
    spark_runs: bool
    then: Callable[[DataFrame], DataFrame] | None = None
    mode: str = "append"
    delays: tuple[int, int, int] = (0, 0, 0)
    views: tuple[str, ...] = ()
    reference: str | None = None

    def frame(self, sql: Sql) -> DataFrame:
        """Return the query's DataFrame as one session or another makes it."""
        for view in self.views:
            sql(view)
        found = sql(self.sql)
        return found if self.then is None else self.then(found)


def _windowed(frame: DataFrame) -> DataFrame:
    return frame.groupBy(F.window("ts", "4 seconds")).count().selectExpr("window.start AS w", "count")


def _left_joined(frame: DataFrame) -> DataFrame:
    condition = F.expr("t.k = a.k AND t.ts BETWEEN a.ts AND a.ts + INTERVAL 4 SECONDS")
    return frame.alias("a").join(frame.sparkSession.table("t").alias("t"), condition, "left").selectExpr("a.id", "t.id")


def _distinct_ids(frame: DataFrame) -> DataFrame:
    names = ["id", "sid"]  # of one pair, whatever its time is
    return frame.dropDuplicatesWithinWatermark(names) if frame.isStreaming else frame.dropDuplicates(names)


#: What the DataFrame API goes on with.
THEN: dict[str, tuple[str, Callable[[DataFrame], DataFrame]]] = {
    "window": ("SELECT r.ts, s.id {join}", _windowed),
    "left join": ("SELECT r.id, r.k, r.ts {join}", _left_joined),
    "deduplicated": ("SELECT r.id, s.id AS sid, s.ts {join}", lambda frame: frame.dropDuplicates(["id", "sid", "ts"])),
    "within watermark": ("SELECT r.id, s.id AS sid, s.ts {join}", _distinct_ids),
}


def cases() -> Iterator[Case]:
    """Yield all queries."""
    delays = itertools.cycle([(0, 0, 0), (5, 5, 5), (0, 7, 3)])
    for kind, time in itertools.product(JOINS, TIMES):
        spark_runs = kind == "equal"
        join = f"FROM r JOIN s ON {JOINS[kind]} AND {TIMES[time]}"
        for name, text in ABOVE.items():
            yield Case(f"{name} / {kind}, {time}", text.format(join=join), spark_runs, delays=next(delays))
        for name, (text, then) in THEN.items():
            yield Case(f"then {name} / {kind}, {time}", text.format(join=join), spark_runs, then, delays=next(delays))
        view = f"CREATE OR REPLACE TEMP VIEW joined AS SELECT r.id, r.k, r.ts, s.x {join}"
        for name, text in VIEWED.items():
            yield Case(f"view, {name} / {kind}, {time}", text, spark_runs, delays=next(delays), views=(view,))
        views = (_BOTH.format(join=join), _ABOVE_IT)
        for name, text in VIEWED_TWICE.items() if kind == "band" else ():
            yield Case(f"views, {name} / {kind}, {time}", text, False, delays=next(delays), views=views)
    for kind, (name, text) in itertools.product(("a.k = s.k", "ABS(a.x - s.x) <= 2"), BELOW.items()):
        if "GROUP BY" in text and "windows" in name and kind != "a.k = s.k":
            kind = "a.k <= s.k"
        yield Case(f"below {name} / {kind}", text.format(ka=kind), "=" in kind and "<" not in kind, delays=next(delays))
    for name, text in THREE.items():
        yield Case(f"three: {name}", text, spark_runs=False, delays=next(delays))
    within = "abs(timestampdiff(microsecond, {}.ts, {}.ts)) <= 4000000"
    bounds = " AND ".join(within.format(*pair) for pair in ("rs", "st", "rt"))
    text = "SELECT window(t.ts, '4 seconds').start AS w, count(*) AS n FROM r JOIN s ON ABS(r.x - s.x) <= 3 JOIN t ON "
    text += "t.k <= s.k {} GROUP BY window(t.ts, '4 seconds')"
    yield Case("three: within", text.format("WITHIN 4 SECONDS"), False, reference=text.format(f"AND {bounds}"))
    join = f"FROM r JOIN s ON {JOINS['band']} AND {TIMES['later']}"
    yield Case("update, window r", ABOVE["window r"].format(join=join), False, mode="update")


VIEWED = {
    "window": "SELECT window(ts, '4 seconds').start AS w, count(*) AS n FROM joined GROUP BY window(ts, '4 seconds')",
    "left join": "SELECT joined.id, t.id AS tid FROM joined LEFT JOIN t ON " + NEAR.format("joined"),
    "theta join": "SELECT joined.id, t.id AS tid FROM joined JOIN t ON joined.k < t.k AND t.ts BETWEEN joined.ts AND "
    "joined.ts + INTERVAL 4 SECONDS",
}
#: A view with two event times, and a theta join over it as a view.
_BOTH = "CREATE OR REPLACE TEMP VIEW joined AS SELECT r.id, r.k, r.ts, s.ts AS sts, s.x {join}"
_ABOVE_IT = (
    "CREATE OR REPLACE TEMP VIEW joined_again AS SELECT joined.k, joined.ts, joined.sts, t.id, t.ts AS tts FROM joined "
    "JOIN t ON joined.k < t.k AND t.ts BETWEEN joined.sts - INTERVAL 4 SECONDS AND joined.sts + INTERVAL 3 SECONDS"
)
_WINDOW = "SELECT window({0}, '4 seconds').start AS w, count(*) AS n FROM {1} GROUP BY window({0}, '4 seconds')"
_AGAIN = (
    "joined_again AS a JOIN r AS u ON u.k <= a.k AND u.id <> a.id AND u.ts BETWEEN a.tts - INTERVAL 2 SECONDS AND "
    "a.tts + INTERVAL 3 SECONDS"
)
VIEWED_TWICE = {
    "window": _WINDOW.format("sts", "joined_again"),
    "window of the other": _WINDOW.format("tts", "joined_again"),
    "left join": "SELECT a.id, r.id AS rid FROM joined_again AS a LEFT JOIN r ON r.k = a.k AND r.ts BETWEEN a.sts AND "
    "a.sts + INTERVAL 3 SECONDS",
    "a third": f"SELECT a.id, u.id AS uid, a.ts, a.sts FROM {_AGAIN}",
    "window above a third": _WINDOW.format("a.tts", _AGAIN),
    "beside the first": _WINDOW.format("ts", "(SELECT tts AS ts FROM joined_again UNION ALL SELECT sts FROM joined)"),
    "the first by itself": "SELECT a.id, b.id AS bid FROM joined AS a JOIN joined AS b ON a.id < b.id AND b.sts "
    "BETWEEN a.sts AND a.sts + INTERVAL 2 SECONDS",
}
_CHAIN = (
    "FROM r JOIN s ON ABS(r.x - s.x) <= 3 AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 SECONDS JOIN t ON t.k <= s.k AND "
    "t.ts BETWEEN s.ts - INTERVAL 6 SECONDS AND s.ts"
)
THREE = {
    **{
        f"window {alias}, {hint or 'default'}": f"SELECT {hint} window({alias}.ts, '4 seconds').start AS w, "
        f"count(*) AS n {_CHAIN} GROUP BY window({alias}.ts, '4 seconds')"
        for alias in "rst"
        for hint in ("", "/*+ SCHEME('semi_symmetric'), UNITS(3) */", "/*+ SCHEME('operator_tree((r, s), t)') */")
    },
    "greatest": "SELECT window(greatest(r.ts, s.ts, t.ts), '4 seconds').start AS w, count(*) AS n "
    f"{_CHAIN} GROUP BY window(greatest(r.ts, s.ts, t.ts), '4 seconds')",
    "left join": f"SELECT r.id, s.id AS sid, t.id AS tid, u.id AS uid {_CHAIN} LEFT JOIN r AS u ON u.k = t.k AND u.ts "
    "BETWEEN t.ts AND t.ts + INTERVAL 4 SECONDS",
    "group above a group": "SELECT window(a.ts, '4 seconds').start AS w, count(*) AS n FROM (SELECT DISTINCT r.ts, "
    f"r.k, s.id FROM r JOIN s ON {JOINS['band']} AND {TIMES['later']}) a JOIN t ON t.k < a.k AND t.ts BETWEEN a.ts AND "
    "a.ts + INTERVAL 5 SECONDS GROUP BY window(a.ts, '4 seconds')",
}


def tables(
    spark: SparkSession,
    home: Path,
    seed: int,
    delays: tuple[int, int, int],
    *,
    late: bool = False,
    nulls: bool = True,
) -> Tables:
    """Make three streams: rows in disorder within the delay, ties at the watermark, NULL times, and an end far ahead.

    As batch tables they lack that end, which closes all windows. With ``late`` some rows are behind the watermark,
    with ``nulls`` some of s have no time.
    """
    made = Tables(spark, home)
    for name, delay in zip("rst", delays, strict=True):
        random = Random(f"{seed}{name}")
        second, rows = 20, []
        for number in range(42):
            second += random.randint(0, 3)
            at = second - random.randint(0, max(delay - 1, 0))
            if late and random.random() < 0.15:
                at -= random.randint(delay, 20)
            rows.append(row(random, number, None if name == "s" and random.random() < 0.05 and nulls else at))
        pieces = []
        while rows:
            size = random.randint(4, 12)
            pieces.append(rows[:size])
            rows = rows[size:]
        ahead = {"id": -1, "x": -1000 * ord(name), "k": -ord(name)}
        pieces += [[{**ahead, "ts": START + datetime.timedelta(days=day)}] for day in (3, 4, 5)]

        def view(frame: DataFrame, delay: int = delay) -> DataFrame:
            return frame.withWatermark("ts", f"{delay} seconds") if frame.isStreaming else frame.where("id >= 0")

        made.create(name, pieces, SCHEMA, ARROW, view)
    return made


def row(random: Random, number: int, second: int | None) -> dict[str, Any]:
    at = None if second is None else START + datetime.timedelta(seconds=second)
    return {"id": number, "x": random.randint(0, 20), "k": random.randint(0, 3), "ts": at}


def streamed(spark: SparkSession, case: Case, sql: Sql) -> Bag | str:
    """Return the rows that a query gives on streams, or the first line of what is wrong."""
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:
            writer = case.frame(sql).writeStream.outputMode(case.mode).format("memory").queryName("found")
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination()
        found = bag(spark.table("found").collect())
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:300]}"
    return Counter({one: count for one, count in found.items() if not _OF_THE_END.search(one)})


#: In a row that comes from those far ahead.
_OF_THE_END = re.compile(r"-1\b|datetime\(2026, 1, [3-6],")


def verdict(spark: SparkSession, tj: trijoin_sql.TriJoinSession, home: Path, case: Case, seed: int) -> str | None:
    """Return what is wrong with a query's rows, None if nothing is."""
    plain: Sql = partial(type(spark).sql, spark)
    made = tables(spark, home, seed, case.delays)
    made.use(streaming=False)
    wanted = bag(replace(case, sql=case.reference or case.sql).frame(plain).collect())
    made.use(streaming=True)
    found = streamed(spark, case, tj.sql)
    if found == wanted or (case.mode == "update" and not isinstance(found, str) and not wanted - found):
        return None
    theirs = streamed(spark, case, plain) if case.spark_runs else None
    if found == theirs or (isinstance(found, str) and isinstance(theirs, str)):
        return None
    return found if isinstance(found, str) else _difference(wanted, found)


def late_verdict(spark: SparkSession, tj: trijoin_sql.TriJoinSession, home: Path, case: Case, seed: int) -> str | None:
    """Return what is wrong with an inner join's rows where some are late: these may be missing if Spark drops them."""
    plain: Sql = partial(type(spark).sql, spark)
    made = tables(spark, home, seed, case.delays, late=True)
    made.use(streaming=False)
    wanted = bag(case.frame(plain).collect())
    made.use(streaming=True)
    found, theirs = streamed(spark, case, tj.sql), streamed(spark, case, plain) if case.spark_runs else Counter()
    if isinstance(found, str) or isinstance(theirs, str):
        return str(found)
    return None if not (found - wanted) and not (theirs - found) else _difference(wanted & theirs, found)


def _difference(wanted: Bag, found: Bag) -> str:
    missing, extra = list((wanted - found).elements()), list((found - wanted).elements())
    return f"{len(missing)} of {wanted.total()} rows missing {missing[:3]}, {len(extra)} too many {extra[:3]}"


def main() -> int:
    """Run the whole corpus, or what a name matches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of queries")
    parser.add_argument("--seed", type=int, default=1, help="of the data")
    parser.add_argument("--list", action="store_true", help="list the queries")
    options = parser.parse_args()
    chosen = [case for case in cases() if options.only in case.name]
    if options.list:
        print("\n".join(f"{case.name}: {case.sql}" for case in chosen))
        return 0
    wrong = 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        spark = local_session(Path(home), "event time", {})
        spark.sparkContext.setLogLevel("OFF")
        tj = trijoin_sql.TriJoinSession.create(spark)
        for number, case in enumerate(chosen):
            checks = [verdict, *([late_verdict] if case.name.startswith("nothing") else [])]
            for check in checks:
                said = check(spark, tj, Path(home) / f"{check.__name__}{number}", case, options.seed)
                wrong += said is not None
                print(f"{'ok' if said is None else 'WRONG'}  {case.name}" + (f": {said}" if said else ""), flush=True)
    print(f"{len(chosen)} queries, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
