"""Outer, semi and anti joins as people write them: what stands in ON, around the join, and above it.

Equalities with WITHIN, conditions on one side or on none, expressions that make something of NULL, USING, chains of
outer joins, subqueries, windows above: at the end all that Spark batch gives.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import trijoin_sql

from .differential import Bag, bag, run_stream
from .test_outer_joins import CONDITIONS, EQUALITIES, between, compared, over, streams

pytestmark = pytest.mark.slow

PADDED = ("LEFT", "RIGHT", "FULL")
KINDS = (*PADDED, "LEFT SEMI", "LEFT ANTI")
#: Their first relation is there in all rows, and with it the event time.
KEEP_FIRST = ("LEFT", "LEFT SEMI", "LEFT ANTI")

MORE_CONDITIONS = (
    *CONDITIONS,
    "NOT (r.x < s.x)",
    "r.x <= s.x AND r.x >= s.x",
    "r.x < s.x AND 1 = 1",
    "r.x < s.x AND r.k IS NOT NULL AND s.w IS NOT NULL",
    "(r.x < s.x OR r.k IS NULL)",
    "(r.x IS NULL OR s.x IS NULL OR r.x > s.x)",
    "r.d > s.d AND COALESCE(r.k, 1) > 0 AND COALESCE(s.k, 2) > 0",
    "r.n BETWEEN s.n - 2 AND s.n",
    "r.w < s.w",
    "CASE WHEN r.k > 0 THEN r.x ELSE 3 END < s.x",
    "COALESCE(r.x, 4) < COALESCE(s.x, 5)",
    "r.x < s.x AND 1 = 0",
    "r.x < s.x AND NULL",
    "true",
)
#: With an equality: ours with WITHIN, or as a subquery.
MORE_EQUALITIES = (
    *EQUALITIES,
    "r.d = s.d",
    "r.d <=> s.d AND r.k > 0",
    "r.n = s.x",
    "r.w = s.w AND r.x <> s.x",
    "r.k = s.k AND (r.x < s.x OR r.w = s.w)",
    "COALESCE(r.k, 0) = s.k",
    "r.k + 1 = s.k",
    "r.w <=> s.w AND r.k <=> s.k",
)
#: The condition, and whether all times of pairs are within 40 seconds.
MORE_BOUNDS = (
    "s.ts BETWEEN r.ts AND r.ts + INTERVAL 20 SECONDS",
    "s.ts BETWEEN r.ts - INTERVAL 40 SECONDS AND r.ts - INTERVAL 5 SECONDS",
    "s.ts >= r.ts AND s.ts < r.ts + INTERVAL 15 SECONDS",
    "r.ts - s.ts BETWEEN INTERVAL '-20' SECOND AND INTERVAL '10' SECOND",
    "unix_seconds(r.ts) - unix_seconds(s.ts) BETWEEN -3 AND 15",
    "date_trunc('MINUTE', s.ts) <= r.ts AND s.ts >= r.ts",
    "s.ts BETWEEN r.ts AND r.ts",
)

#: What the columns of each side are made into, and what stands in WHERE. What filters one side lets its last row pass,
#: which closes all others: Spark filters below a watermark.
R_COLUMNS = ("r.id AS a", "r.k AS b", "COALESCE(r.x, 7) AS c", "r.id IS NULL AS e", "r.ts AS f", "r.n + 1 AS g")
S_COLUMNS = (
    "s.id AS h",
    "COALESCE(s.x, 7) AS i",
    "s.id IS NULL AS j",
    "s.n AS l",
    "concat(s.w, '!') AS m",
    "s.ts AS o",
)
ABOVE_ONE = ("r.k > 0", "r.k IS NULL OR r.k = 1", "COALESCE(r.x, 9) > 5", "r.w <> 'b'", "r.x % 2 = 1")
ABOVE_BOTH = (
    *ABOVE_ONE,
    "s.id IS NULL",
    "s.id IS NOT NULL",
    "s.x > 3",
    "COALESCE(s.x, 9) > 3",
    "r.x < s.k",
    "r.id IS NULL OR s.id IS NULL",
    "s.w <=> r.w",
    "r.id % 2 = 0 OR s.k > 0",
)


def random_form(random: Random) -> tuple[str, str]:
    """Return a query for batch, and one for streams: the same but for WITHIN."""
    kind, bound = random.choice(KINDS), random.choice(MORE_BOUNDS)
    padded = kind in PADDED
    hint = random.choice(("", "/*+ UNITS(1) */ ", "/*+ UNITS(3) */ "))
    columns = random.sample(R_COLUMNS, 3) + (random.sample(S_COLUMNS, 3) if padded else [])
    select = f"SELECT {hint}{', '.join(['r.id', *(['s.id'] if padded else []), *columns])}"
    equal = random.random() < 0.4
    on = random.choice(MORE_EQUALITIES if equal else MORE_CONDITIONS)
    where = random.choice(ABOVE_BOTH if padded else ABOVE_ONE) if random.random() < 0.5 else ""
    above = f" WHERE {where}" if where else ""
    within = "ABS(unix_micros(r.ts) - unix_micros(s.ts)) <= 40000000"
    match random.randrange(7):
        case 5:  # a column that both sides share: of the side that has it
            key = {"RIGHT": "s.k", "FULL": "COALESCE(r.k, s.k)"}.get(kind, "r.k")
            ids = "r.id AS a, s.id AS b" if padded else "r.id AS a"
            return f"SELECT {key} AS k, {ids} FROM r {kind} JOIN s ON r.k = s.k AND {within}{above}", (
                f"SELECT k, {ids} FROM r {kind} JOIN s USING (k){above} WITHIN 40 SECONDS"
            )
        case 0 if not padded:
            negated = "NOT " if kind == "LEFT ANTI" else ""
            also = f" AND ({where})" if where else ""
            sql = f"{select} FROM r WHERE {negated}EXISTS (SELECT 1 FROM s WHERE {on} AND {bound}){also}"
            return sql, sql
        case 1 if not padded or kind == "LEFT":
            inner = "(SELECT id, k, x, d, n, w, ts FROM s WHERE x > 1 OR x IS NULL)"
            from_ = f"FROM (SELECT * FROM r WHERE k >= 0) AS r {kind} JOIN {inner} AS s ON {on}"
        case 2 if padded:
            from_ = f"FROM r {kind} JOIN (SELECT s.*, 1 AS one, COALESCE(s.k, 5) AS five FROM s) AS s ON {on}"
            select += ", s.one AS p, s.five AS q, COALESCE(s.one, 0) AS v"
        case 3:
            from_ = f"FROM r {kind} JOIN r AS s ON {on}"
        case _:
            from_ = f"FROM r {kind} JOIN s ON {on}"
    if equal or random.random() < 0.3:
        return f"{select} {from_} AND {bound} AND {within}{above}", (
            f"{select} {from_} AND {bound}{above} WITHIN 40 SECONDS"
        )
    sql = f"{select} {from_} AND {bound}{above}"
    return sql, sql


@pytest.mark.parametrize("seed", range(5))
def test_forms(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    batch, stream = random_form(Random(seed))
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", seed, 30), tmp_path, batch, stream)
    assert found == wanted, stream


def random_chain(random: Random) -> str:
    """Return a query with two outer, semi or anti joins, one above the other or around a derived table."""
    two = random.choice(KINDS)
    one = random.choice(KINDS if two == "LEFT SEMI" else KEEP_FIRST)  # a semi join keeps its rows for ever then
    first, second = (random.choice(CONDITIONS) for _ in range(2))
    middle = "s" if one in ("RIGHT", "FULL") and random.random() < 0.5 else "r"
    seconds = random.choice((5, 15))
    s, t = (
        f", {alias}.id AS {name}" if kind in PADDED else "" for kind, alias, name in ((one, "s", "b"), (two, "t", "c"))
    )
    below = f"FROM r {one} JOIN s ON {first} AND {between('r', 's', seconds)}"
    if random.random() < 0.3:
        columns = ", ".join(f"{middle}.{column}" for column in ("id", "k", "x", "d", "n", "w", "ts"))
        select, below, middle = f"q.id AS a, q.w{t}", f"FROM (SELECT {columns} {below}) AS q", "q"
    else:
        select = f"r.id AS a{s}{t}"
    near = between(middle, "t", seconds)
    return f"SELECT {select} {below} {two} JOIN t ON {over(second, middle, 't')} AND {near}"


@pytest.mark.rare
@pytest.mark.parametrize("seed", range(2))
def test_chains(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    sql = random_chain(Random(seed))
    found, wanted = compared(spark, streams(spark, tmp_path / "tables", seed, 25), tmp_path, sql)
    assert found == wanted, sql


@pytest.mark.rare
@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
def test_above_a_join_that_pads_its_first_relation(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """The time that such rows come by is the first that is not NULL: no row above waits for ever, and none is lost."""
    tables = streams(spark, tmp_path / "tables", 3, 30)
    below = f"FROM r {kind} JOIN s ON r.x < s.x AND {between('r', 's', 15)}"
    above = f"JOIN t ON s.x < t.x AND {between('s', 't', 15)}"
    queries = [
        f"SELECT {n}, r.id AS a, s.id AS b, t.id AS c {below} {how} {above}" for n, how in enumerate(("", "LEFT"))
    ]
    found, wanted = compared(spark, tables, tmp_path, " UNION ALL ".join(queries))
    assert found == wanted
    assert wanted


@pytest.mark.rare
@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "LEFT ANTI"])
def test_groups_above(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    """A row without a partner is counted when it comes; NULLs of the other side are none of its values."""
    key, of_s = ("COALESCE(r.x, s.x)", ", count(s.id), sum(s.x)") if kind in PADDED else ("r.x", "")
    sql = (
        f"SELECT {key} AS g, count(*) AS n, count(r.id) AS a, max(r.n) AS b{of_s} FROM r {kind} JOIN s "
        f"ON r.d < s.d AND {between('r', 's', 15)} GROUP BY {key}"
    )
    tables, tj = streams(spark, tmp_path / "tables", 21, 30), trijoin_sql.TriJoinSession.create(spark)
    tables.use(streaming=False)
    wanted = bag(spark.sql(sql).collect())
    tables.use(streaming=True)
    found = run_stream(tj.sql(sql), tmp_path / "checkpoint", "complete")
    last = [row for row in {*wanted, *found} if row.startswith("[9,")]  # of the last rows, which nothing closes
    assert Bag({row: n for row, n in found.items() if row not in last}) == Bag(
        {row: n for row, n in wanted.items() if row not in last}
    )
    assert len(wanted) > 5


@pytest.mark.rare
def test_subqueries_and_conditions_that_are_no_plain_comparisons(spark: SparkSession, tmp_path: Path) -> None:
    """A function that only this session knows; what changes no answer; several values; what is the same in all rows."""
    tables = streams(spark, tmp_path / "tables", 9, 30)
    spark.udf.register("doubled", lambda number: None if number is None else 2 * number, "int")
    near = between("r", "s", 15)
    of_r = (
        f"EXISTS (SELECT doubled(s.k) FROM s WHERE s.x > r.x AND {near})",
        f"NOT (NOT EXISTS (SELECT 1 FROM s WHERE s.x > r.x AND {near}))",
        f"NOT EXISTS (SELECT DISTINCT s.k FROM s WHERE s.x > r.x AND {near})",
        f"EXISTS (SELECT 1 FROM s WHERE s.x > r.x AND {near} ORDER BY s.id LIMIT 1)",
        f"r.k IN (SELECT CAST(s.k AS BIGINT) FROM s WHERE {near})",
        f"(r.k, r.w) IN (SELECT s.k, s.w FROM s WHERE s.x <> r.x AND {near})",
    )
    joins = (
        f"r JOIN s ON typeof(r.x) = typeof(s.x) AND r.x < s.x AND {near}",
        "r FULL JOIN s ON date_trunc('MINUTE', r.ts) = date_trunc('MINUTE', s.ts) AND r.x < s.x",
    )
    queries = [f"SELECT {number} AS form, r.id AS a, 0 AS b FROM r WHERE {one}" for number, one in enumerate(of_r)]
    queries += [f"SELECT {9 + number} AS form, r.id AS a, s.id AS b FROM {one}" for number, one in enumerate(joins)]
    found, wanted = compared(spark, tables, tmp_path, " UNION ALL ".join(queries))
    assert found == wanted
    assert len({row.split(",")[0] for row in wanted}) == len(queries)


@pytest.mark.rare
def test_a_full_join_by_spark_pairs_no_nulls(spark: SparkSession, tmp_path: Path) -> None:
    """Spark finds state by the bytes of a key, so that NULL meets NULL; batch, and a join of ours, do not.

    Rows without a time never come there, padded or not.
    """
    tables = streams(spark, tmp_path, 77)

    def timed(name: str) -> str:
        return f"(SELECT * FROM {name} WHERE ts IS NOT NULL) AS {name}"

    near = between("r", "s", 20)
    union = " UNION ALL ".join(
        f"SELECT {number} AS form, r.id AS a, s.id AS b FROM {timed('r')} FULL JOIN {timed('s')} ON {equal} AND {near}"
        for number, equal in enumerate(("r.k = s.k", "r.k = s.k AND r.x = s.x", "r.k <=> s.k", "s.k + 1 = r.k"))
    )
    found, wanted = compared(spark, tables, tmp_path, union)
    assert found == wanted
