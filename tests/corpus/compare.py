"""Run TPC-H and TPC-DS with our operators and compare every query with Spark's own rows (`make corpus-test`).

``python -m tests.corpus.compare [tpch/q05 tpcds ...] [--new] [--table]``: queries or benchmarks to run, only those
without equal rows so far, and write the table of all results into ``queries/README.md``. Results are kept in
``build/corpus/``.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlglot
from trijoin_sql.rewriter.sql.declarations import read_script

import trijoin_sql

from ..fallbacks import fallbacks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).resolve().parents[2]
QUERIES = ROOT / "queries"
RESULTS = ROOT / "build" / "corpus"
BEGIN, END = "<!-- corpus-test -->", "<!-- end of corpus-test -->"


def corpus() -> list[Path]:
    """Return the generated queries, TPC-H's first."""
    return [path for name in ("tpch", "tpcds") for path in sorted((QUERIES / name).glob("q*.sql"))]


def name_of(path: Path) -> str:
    """Return how a query is called, such as ``tpch/q05``."""
    return f"{path.parent.name}/{path.stem}"


@contextmanager
def session() -> Iterator[SparkSession]:
    """Yield a small session in temporary folders."""
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="trijoin-corpus-") as home:
        settings = {
            "spark.driver.memory": "2g",
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.local.dir": f"{home}/local",
            "spark.sql.warehouse.dir": f"{home}/warehouse",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            "spark.trijoin.tables": "all",
        }
        builder = SparkSession.builder.master("local[2,4]").appName("trijoin-sql corpus").config(map=settings)
        spark = trijoin_sql.configure(builder).getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        try:
            yield spark
        finally:
            spark.stop()


def register(spark: SparkSession, benchmark: str) -> None:
    """Make a benchmark's tables the session's temporary views."""
    for path in sorted((QUERIES / benchmark / "data").glob("*.parquet")):
        spark.read.parquet(str(path)).createOrReplaceTempView(path.stem)


def collect(spark: SparkSession, frame: DataFrame, seconds: float) -> list[tuple[Any, ...]]:
    """Return the rows of a frame; cancel it when it takes too long."""
    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), spark.sparkContext.cancelAllJobs)
    timer.start()
    try:
        return [tuple(row) for row in frame.collect()]
    finally:
        timer.cancel()


def difference(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> str | None:
    """Compare two bags of rows, the last digits of doubles aside; return what differs."""
    if len(found) != len(expected):
        return f"{len(found)} rows, Spark has {len(expected)}"
    pairs = zip(sorted(found, key=_order), sorted(expected, key=_order), strict=True)
    for one, other in pairs:
        if len(one) != len(other) or not all(map(_same, one, other)):
            return f"{one!r:.80} where Spark has {other!r:.80}"
    return None


def _order(row: tuple[Any, ...]) -> tuple[str, ...]:
    exact = [repr(value) for value in row if not isinstance(value, float)]
    return (*exact, *[f"{value:.6e}" for value in row if isinstance(value, float)])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12) or (math.isnan(one) and math.isnan(other))
    return type(one) is type(other) and bool(one == other)


def without_limit(sql: str) -> str | None:
    """Return a query without the LIMIT at its end, for rows that tie there; None if it has none."""
    tree = sqlglot.parse_one(sql, read="databricks")
    if tree.args.get("limit") is None:
        return None
    tree.set("limit", None)
    return tree.sql("databricks")


def expected_rows(spark: SparkSession, name: str, sql: str, seconds: float) -> list[tuple[Any, ...]]:
    """Return Spark's own rows, from the last run if the query is the same."""
    path = RESULTS / "spark" / f"{name.replace('/', '-')}.pickle"
    if path.exists():
        known, rows = pickle.loads(path.read_bytes())
        if known == sql:
            return list(rows)
    rows = collect(spark, spark.sql(sql), seconds)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pickle.dumps((sql, rows)))
    return rows


def compare(spark: SparkSession, path: Path, seconds: float) -> dict[str, Any]:
    """Run one query both ways; return its line of the table."""
    name = name_of(path)
    _, (sql,) = read_script(path.read_text(encoding="utf-8"))
    tj = trijoin_sql.TriJoinSession.create(spark)
    found: dict[str, Any] = {"name": name, **summary(tj.explain(sql).to_dict()), "rows": None, "why": ""}
    try:
        expected = expected_rows(spark, name, sql, seconds)
        start = time.monotonic()
        with fallbacks() as left:
            rows = collect(spark, tj.sql(sql), seconds)
        found["rows"], found["seconds"] = len(rows), round(time.monotonic() - start, 1)
        why = difference(rows, expected)
        unlimited = without_limit(sql) if why else None
        if unlimited is not None and len(rows) == len(expected):
            whole = expected_rows(spark, f"{name} whole", unlimited, seconds)
            why = difference(collect(spark, tj.sql(unlimited), seconds), whole)
        loose = path.parent / "loose" / path.name
        if why is None and not rows and loose.exists():
            why, found["loose"] = compare_loosened(tj, name, loose, seconds)
        why = why or next(iter(left), None)
        found["equal"], found["why"] = why is None, why or ""
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        found["equal"], found["why"] = False, f"{type(error).__name__}: {lines[0]}"
        found["detail"] = str(error)[:20000]
    return found


def compare_loosened(
    tj: trijoin_sql.TriJoinSession, name: str, path: Path, seconds: float
) -> tuple[str | None, int | None]:
    """Run a query without some of its filters both ways; return what differs, and the number of rows."""
    _, (sql,) = read_script(path.read_text(encoding="utf-8"))
    expected = expected_rows(tj.spark, f"{name} loose", sql, seconds)
    why = difference(collect(tj.spark, tj.sql(sql), seconds), expected)
    return f"without some filters: {why}" if why else None, len(expected)


def summary(explained: dict[str, Any]) -> dict[str, Any]:
    """Return whether a query is converted, its nodes, and what is left alone."""
    groups = [(group["decision"], len(group["graph"]["relations"])) for group in explained["groups"]]
    nodes = Counter(f"{one['node']} {one['scheme']}({size})" for one, size in groups if one["node"] != "none")
    return {
        "converted": explained["converted"],
        "nodes": ", ".join(f"{count} {one}" if count > 1 else one for one, count in nodes.items()),
        "left": "; ".join(dict.fromkeys(one["reason"] for one, _ in groups if one["node"] == "none")),
    }


def results(file: str = "results.json") -> dict[str, dict[str, Any]]:
    """Return the last result of every query."""
    path = RESULTS / file
    return dict(json.loads(path.read_text())) if path.exists() else {}


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    known = [found[name_of(path)] for path in corpus() if name_of(path) in found]
    lines = []
    for benchmark, title in (("tpch", "TPC-H"), ("tpcds", "TPC-DS")):
        own = [one for one in known if one["name"].startswith(f"{benchmark}/")]
        converted = [one for one in own if one["converted"]]
        equal = sum(bool(one["equal"]) for one in converted)
        empty = sum(not one["rows"] and not one.get("loose") for one in converted if one["equal"])
        lines.append(
            f"{title}: {len(own)} run, {len(converted)} converted, {equal} of these with Spark's own rows "
            f"({empty} have none in this data, which says little)."
        )
    lines += [
        "",
        "Rows in brackets: those of a query that has none here, after `loosen.py` took filters out.",
        "",
    ]
    lines += ["| query | nodes and schemes (relations) | rows | equal |", "| --- | --- | ---: | --- |"]
    for one in known:
        nodes = one["nodes"] or one["left"] or "not converted: no inner join"
        equal = "yes" if one["equal"] else f"no: {one['why']}".replace("|", "\\|")[:160]
        if not one["converted"] and one["equal"]:
            equal = "Spark's"
        rows = "" if one["rows"] is None else f"{one['rows']}"
        rows += f" ({one['loose']})" if one.get("loose") else ""
        lines.append(f"| {one['name']} | {nodes} | {rows} | {equal} |")
    return "\n".join(lines)


def table_of_streams(found: dict[str, dict[str, Any]]) -> str:
    """Return what the queries ended with as streams, as Markdown."""
    lines = ["As streams (complete mode):", ""]
    lines += ["| query | nodes and schemes (relations) | micro-batches | rows at the end | as in batch |"]
    lines += ["| --- | --- | ---: | ---: | --- |"]
    for _, one in sorted(found.items()):
        equal = "yes" if one["equal"] else f"no: {one['why']}".replace("|", "\\|")[:160]
        lines.append(f"| {one['name']} | {one['nodes']} | {one['batches']} | {one['rows']} | {equal} |")
    return "\n".join(lines) if found else ""


def write_table() -> None:
    """Write the table of all results into ``queries/README.md``."""
    path = QUERIES / "README.md"
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    tables = "\n\n".join(filter(None, (table_of_streams(results("streams.json")), table(results()))))
    path.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}", encoding="utf-8")


def main() -> int:
    """Run what is asked for; the exit code says whether all rows are equal."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("queries", nargs="*", help="such as tpch or tpcds/q17; all if none is named")
    parser.add_argument("--new", action="store_true", help="only those without equal rows so far")
    parser.add_argument("--table", action="store_true", help="run nothing, write the table into queries/README.md")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long a query may take")
    options = parser.parse_args()
    if options.table:
        write_table()
        return 0
    if not corpus():
        sys.exit("there are no queries: run `make corpus` first")
    found = results()
    wanted = [
        path
        for path in corpus()
        if (not options.queries or {name_of(path), path.parent.name} & set(options.queries))
        and not (options.new and found.get(name_of(path), {}).get("equal"))
    ]
    failed = 0
    with session() as spark:
        at = ""
        for path in wanted:
            if path.parent.name != at:
                at = path.parent.name
                register(spark, at)
            one = compare(spark, path, options.seconds)
            found[one["name"]] = one
            RESULTS.mkdir(parents=True, exist_ok=True)
            (RESULTS / "results.json").write_text(json.dumps(found, indent=1))
            failed += not one["equal"]
            state = "equal" if one["equal"] else one["why"]
            took = one.get("seconds", "")
            print(
                f"{one['name']}: {one['nodes'] or 'not converted'}, {one['rows']} rows, {took} s, {state}", flush=True
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
