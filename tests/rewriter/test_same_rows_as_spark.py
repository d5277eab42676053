"""The rewritten query has the rows of the user's, by Spark batch; join nodes are plain SQL here (see `reference`)."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.sql.declarations import read_script

from .fuzz import FAST, bag, check, create_tables
from .random_queries import random_query
from .reference import views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: How many random queries hypothesis may try.
CASES = int(os.environ.get("TRIJOIN_RANDOM_QUERIES", "0"))


@pytest.fixture(scope="module", autouse=True)
def tables(spark: SparkSession) -> Iterator[None]:
    """Small tables with NULL, NaN, -0.0, duplicates; settings that suit small queries."""
    before = {key: spark.conf.get(key, None) for key in FAST}
    for key, value in FAST.items():
        spark.conf.set(key, value)
    create_tables(spark)
    yield
    for key, known in before.items():
        if known is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, known)
    for name in (*"rstcu",):
        spark.catalog.dropTempView(name)


CLOCKS = read_script("CREATE TABLE clock_r (id INT, ts TIMESTAMP); CREATE TABLE clock_s (id INT, ts TIMESTAMP)")[0]


QUERIES = """
SELECT * FROM r FULL JOIN s USING (id) JOIN t USING (id)
SELECT id, count(*) AS c FROM r JOIN s USING (id) JOIN t USING (id) GROUP BY id ORDER BY id
SELECT R.ID, S.`A` FROM R JOIN S ON R.Id = s.iD JOIN T AS tt ON TT.a BETWEEN R.a - 1 AND R.a + 1
SELECT r.id FROM r JOIN s ON abs(r.a - s.a) <= 1 JOIN t ON t.a - s.a < 2 AND t.d >= s.d - 2 AND t.d < s.d + 2
SELECT r.id FROM r JOIN s ON NOT (r.a < s.a) AND NOT (r.x > s.x) WHERE NOT (r.id = s.id OR r.n <> s.n)
SELECT r.x, s.x FROM r JOIN s ON r.x = s.x
SELECT r.x, s.x FROM r JOIN s ON ABS(r.x - s.x) <= 1.25
SELECT r.x, s.x FROM r JOIN s ON r.x - s.x < 1
SELECT r.x, s.x FROM r JOIN s ON r.x - s.x > -1
SELECT r.x, s.x, r.a, s.a FROM r JOIN s ON POWER(r.x - s.x, 2) + POWER(r.a - s.a, 2) <= 6.25
SELECT r.x, s.x, t.x FROM r JOIN s ON hypot(r.x - s.x, r.a - s.a) <= 2 JOIN t ON ABS(s.x - t.x) + ABS(s.m - t.m) < 2
SELECT r.x, s.x, r.a, s.a FROM r JOIN s ON GREATEST(ABS(r.x - s.x), ABS(r.a - s.a)) <= 1
SELECT r.x, s.x, r.a, s.a FROM r JOIN s ON GREATEST(ABS(r.x - s.x), ABS(r.a - s.a)) <= 1 WHERE r.x IS NOT NULL AND s.x < 9
SELECT r.x, s.x, r.m, s.m FROM r JOIN s ON SQRT((r.m - s.m) * (r.m - s.m) + (r.x - s.x) * (r.x - s.x)) < 1.5
SELECT r.a, s.a FROM r JOIN s ON (r.a - s.a) * (r.a - s.a) + POWER((r.id - s.id - 1) / 2, 2) <= 1
SELECT r.x, s.x FROM r JOIN s ON 12742 * ASIN(SQRT(POWER(SIN((RADIANS(s.x) - RADIANS(r.x)) / 2), 2) + COS(RADIANS(r.x)) * COS(RADIANS(s.x)) * POWER(SIN(RADIANS(s.a - r.a) / 2), 2))) < 300 AND r.x BETWEEN -90 AND 90 AND ABS(s.x) <= 90
SELECT r.x, s.x FROM r JOIN s ON 12742 * ASIN(SQRT(POWER(SIN((RADIANS(s.x) - RADIANS(r.x)) / 2), 2) + COS(RADIANS(r.x)) * COS(RADIANS(s.x)) * POWER(SIN(RADIANS(s.a - r.a) / 2), 2))) < 300
SELECT r.x, s.x FROM r JOIN s ON 6371 * ACOS(SIN(RADIANS(r.x)) * SIN(RADIANS(s.x)) + COS(RADIANS(r.x)) * COS(RADIANS(s.x)) * COS(RADIANS(s.a - r.a))) <= 300 WHERE r.x BETWEEN -90 AND 90 AND s.x BETWEEN -90 AND 90
SELECT r.x, s.x FROM r JOIN s ON 6371 * ACOS(SIN(RADIANS(r.x)) * SIN(RADIANS(s.x)) + COS(RADIANS(r.x)) * COS(RADIANS(s.x)) * COS(RADIANS(s.a - r.a))) <= 300 AND r.x <> s.x
SELECT r.a, s.a FROM r JOIN s ON r.a - s.a < 0.5 AND r.a - s.a > -1.5
SELECT r.a, s.a FROM r JOIN s ON ABS(r.a - s.a - 3) <= 1 AND ABS(1 + s.id - r.id) < 3 AND -r.a + s.a + 2 * 2 > -3
SELECT r.a, s.a, t.a FROM r JOIN s ON r.a - s.a = 1 JOIN t ON s.a + t.a BETWEEN 3 AND 4 AND 3.5 - t.id + r.id >= 2
SELECT r.x, s.x FROM r JOIN s ON ABS(r.x - s.x + 0.5 - 1) <= 1.25 AND r.m - s.m - 0.5 <= 0.5 AND r.a - s.x + 1 < 3
SELECT r.id, s.id FROM r JOIN s ON r.ts - s.ts + INTERVAL 1 MINUTE < INTERVAL 3 MINUTES AND ABS(datediff(s.d, r.d) - 1) < 3 AND s.d - r.d - INTERVAL 1 DAY < INTERVAL 2 DAYS
SELECT q.z, t.id FROM (SELECT r.a + s.a AS z, r.id FROM r JOIN s ON r.id = s.id WHERE r.n = 'x') q JOIN t ON q.z = t.a
SELECT q.* FROM (SELECT * FROM r JOIN s USING (id)) q JOIN t ON q.id = t.id
SELECT x.id, y.id FROM (SELECT DISTINCT r.id FROM r JOIN s ON r.a < s.a) x LEFT JOIN t y ON x.id = y.id AND x.id < y.a
WITH q AS (SELECT r.id, s.a AS b FROM r JOIN s ON r.id = s.id) SELECT q1.b, q2.b FROM q q1 JOIN q q2 ON q1.id < q2.id
WITH q(k, v) AS (SELECT r.id, s.a FROM r JOIN s ON r.id = s.id GROUP BY ALL) SELECT q.v, t.n FROM q JOIN t ON t.id = q.k
SELECT r.n, sum(s.a) AS q FROM r JOIN s ON r.id = s.id GROUP BY r.n HAVING sum(s.a) > 1 ORDER BY sum(s.a) DESC, r.n
SELECT r.n, s.n, count(*) FROM r, s WHERE r.a = s.a GROUP BY ROLLUP (r.n, s.n)
SELECT r.id AS i, i + 1 AS j FROM r JOIN s ON r.id = s.id
SELECT r.id FROM r JOIN s ON r.id = s.id WHERE r.a > (SELECT avg(t.a) FROM t JOIN u ON t.id = u.key WHERE t.n = s.n)
SELECT r.id FROM r LEFT ANTI JOIN s ON r.id = s.id JOIN t ON t.a > r.a JOIN u ON u.key = t.id
SELECT r.id, q.k FROM r JOIN s ON r.a < s.a JOIN (SELECT t.id AS k, max(t.a) AS m FROM t GROUP BY 1) q ON q.m >= s.a
SELECT r.id FROM r JOIN s ON 1 = 2 JOIN t ON r.id = t.id
SELECT r.id FROM r JOIN s ON r.id = s.id AND NULL
SELECT r.id, s.id FROM r, s WHERE (r.id, r.a) = (s.id, s.a)
SELECT r.id FROM (r JOIN s ON r.id = s.id) LEFT JOIN (t JOIN u ON t.id = u.key) ON r.a = t.a WHERE s.a > 0
(SELECT r.id FROM r JOIN s ON r.id = s.id) INTERSECT (SELECT s.id FROM s JOIN t ON s.a < t.a) ORDER BY id
SELECT r.id, c.n FROM r JOIN s ON r.a < s.a JOIN c ON r.n = c.n JOIN u ON u.key = c.id
SELECT r.id, s.a, t.n FROM r, s LEFT JOIN t ON r.id = t.id AND r.a < s.a WHERE s.id > 1
SELECT r.a, c.n FROM r, s FULL JOIN c USING (n), t WHERE t.a = s.id AND s.ts = r.ts
SELECT r.id, s.a, s.id FROM r JOIN s ON r.id = s.id UNION ALL SELECT s.id, t.id, s.id FROM s JOIN t ON s.a < t.a
SELECT s.a, t.x, t.id FROM r, s JOIN t USING (id), u WHERE u.key = s.id AND s.a > 0
WITH w AS (SELECT DISTINCT t.n AS p, upper(t.n) k FROM t) SELECT y.v, z.p FROM w z, (SELECT max(q.a) AS v FROM t q, w o FULL JOIN w p USING (k) WHERE o.p > q.n GROUP BY p.p) AS y WHERE z.p IS NOT NULL AND y.v > 0
SELECT w3.id FROM r JOIN ((SELECT id FROM t) w2 JOIN s w3 ON w2.id = w3.a) ON r.id = w3.id
SELECT r.id, p.k FROM r LEFT JOIN (WITH c1 AS (SELECT u.key AS k FROM u JOIN c ON u.key = c.id) SELECT c1.k FROM c1) p ON r.id = p.k JOIN (WITH c1 AS (SELECT id AS k FROM t) SELECT c1.k FROM c1 JOIN s ON s.a = c1.k) q ON q.k = r.id
SELECT 'it''s', r.a DIV 2, r.ts + INTERVAL 1 DAY, DATE '2024-01-02', 1.5BD, X'1F', r.x::string FROM r JOIN s USING (id)
SELECT r.id, sum(s.a) FILTER (WHERE s.x > 1) OVER w AS q FROM r JOIN s ON r.id = s.id WINDOW w AS (PARTITION BY r.id)
SELECT named_struct('a', r.id).a, transform(array(r.a, s.a), v -> v + r.id)[0] FROM r JOIN s ON r.id = s.id
SELECT * FROM (SELECT r.n, s.a, s.id FROM r JOIN s ON r.a < s.a JOIN t ON t.id = r.id) PIVOT (count(id) FOR n IN ('x' AS x, 'y' AS y))
SELECT p.x, t.id FROM (SELECT r.n, r.a AS ra, s.id FROM r JOIN s ON r.a < s.a) PIVOT (count(id) FOR n IN ('x' AS x, 'y' AS y)) AS p JOIN t ON t.a = p.ra
WITH p AS (SELECT * FROM (SELECT r.n, s.id FROM r JOIN s ON r.a < s.a) PIVOT (count(id) FOR n IN ('x' AS x, 'y' AS y))) SELECT p.x, t.id FROM p JOIN t ON t.a < p.x
WITH p AS (SELECT * FROM (SELECT r.n, s.id FROM r JOIN s ON r.a < s.a) PIVOT (count(id) FOR n IN ('x' AS x, 'y' AS y))) SELECT p.*, t.id FROM p JOIN t ON t.a < p.x
SELECT k, v FROM (SELECT r.id, s.a FROM r JOIN s ON r.a < s.a) AS q UNPIVOT INCLUDE NULLS (v FOR k IN (id, a)) AS w
SELECT r.id, e, t.id FROM r JOIN s ON r.a < s.a JOIN t ON s.a = t.a LATERAL VIEW OUTER explode(array(r.id, s.id)) l AS e WHERE e > 2 AND t.id > 1
SELECT r.id, count(*) AS c, sum(e) AS q FROM r JOIN s ON r.a < s.a LATERAL VIEW explode(array(1, s.id)) l AS e GROUP BY r.id
SELECT z.id, l.m FROM (SELECT r.id, s.a FROM r JOIN s ON r.a < s.a) z, LATERAL (SELECT max(t.a) AS m FROM t WHERE t.id = z.a) AS l
SELECT r.id, l.m FROM r, LATERAL (SELECT s.a + t.id AS m FROM s JOIN t ON s.a = t.a AND s.id < t.id) AS l WHERE r.id > l.m
SELECT r.id, s.a, posexplode(array(r.a, s.a)) FROM r JOIN s ON r.a < s.a
SELECT r.ts, s.ts FROM r JOIN s ON r.ts - s.ts <= INTERVAL 3 MINUTES AND s.ts - r.ts < INTERVAL 90 SECONDS
SELECT r.id FROM r, s RIGHT JOIN t ON s.id = t.id WHERE r.a < s.a
SELECT r.id, s.a, t.n FROM r LEFT JOIN s ON r.id = s.id JOIN t ON t.a < r.a AND t.id >= s.id
SELECT /*+ SCHEME('operator_tree') */ r.id, u.val FROM r, s, t, u WHERE r.id = s.id AND s.a BETWEEN t.a - 1 AND t.a + 2 AND t.id < u.key AND r.a + u.val > 1
SELECT /*+ SCHEME('operator_tree') */ a.id, d.x FROM r a, s b, t c, r d WHERE a.ts <= b.ts AND b.ts <= a.ts + INTERVAL 5 MINUTES AND d.a - a.a < 2 AND c.id = a.id AND c.id >= d.id - 1
SELECT /*+ SCHEME('operator_tree((a, b), (c, d))') */ a.id, d.x, b.n FROM r a, s b, t c, r d WHERE a.id = b.id AND b.a < c.a AND c.n = d.n AND ABS(d.a - a.a) < 2
SELECT /*+ SCHEME('operator_tree(((a, b), c), d)') */ a.id, d.x, b.n FROM r a, s b, t c, r d WHERE a.ts = b.ts AND b.a < c.a AND c.n = d.n AND a.d <= d.d + 1 AND a.a + c.a > d.a
WITH q AS (SELECT r.a + s.id AS y FROM r JOIN s ON r.id = s.id) SELECT v.y, z.y AS w FROM q z JOIN q x ON ABS(z.y - x.y) < 2 RIGHT JOIN (t JOIN q v ON t.a - v.y BETWEEN -1 AND 2) ON x.y <= t.id
SELECT /*+ SCHEME('operator_tree((a, b), c)') */ c.id FROM r a JOIN s b ON a.id = b.id CROSS JOIN t c
SELECT r.id FROM r JOIN s ON r.a < s.a WHERE NOT (r.id < s.a AND r.a > s.id OR r.x > 3)
SELECT r.id FROM r JOIN s ON r.a < s.a WHERE NOT (r.id = 1 AND r.a = 2 OR r.id = 3)
SELECT r.id, s.a FROM r LEFT JOIN s ON NOT (r.id = 1 AND s.a = 2 OR s.id = 5) JOIN t ON t.a < r.a
SELECT to_json(struct(r.a, s.id, R.x AS y, r.a + 1)) AS v FROM r JOIN s ON r.a < s.a
SELECT to_json(struct(id, (r.n, r.a))) AS v FROM r JOIN s USING (id)
SELECT to_json(q.v) AS w, q.v.a FROM (SELECT struct(r.a, s.id) AS v, r.id FROM r JOIN s ON r.a < s.a) q JOIN t ON q.id < t.id
SELECT to_json(struct(q.c, t.a)) AS v FROM (SELECT r.a + s.a AS c FROM r JOIN s ON r.id = s.id) q JOIN t ON q.c < t.a
SELECT r.n, max(struct(r.a, s.x)).a AS m, to_json(max(struct(r.a, s.id))) AS j FROM r JOIN s ON r.a < s.a GROUP BY r.n
SELECT to_json(struct(r.n, count(*))) AS v FROM r JOIN s ON r.a < s.a GROUP BY r.n
SELECT r.id FROM r JOIN s ON r.a < s.a WHERE (r.id, s.a) IN ((1, 2), (2, 3)) OR (r.id, r.a) IN (SELECT t.id, t.a FROM t)
SELECT r.a, 1 AS one FROM r JOIN s ON r.a < s.a ORDER BY 1 LIMIT 5
SELECT sum(r.a) AS id, count(*) AS n FROM r JOIN u ON r.a < u.val GROUP BY r.id HAVING id > 2
SELECT concat(r.n, 'x') AS n, count(*) AS k FROM r JOIN u ON r.a < u.val GROUP BY r.n HAVING n = 'x'
SELECT r.id + 1 AS id, collect_set(r.a) AS k FROM r JOIN u ON r.a < u.val GROUP BY r.id HAVING id > 2
SELECT r.id + 1 AS id, count(*) AS k FROM r JOIN u ON r.a < u.val GROUP BY r.id + 1 HAVING id + 1 > 3
SELECT r.id + 1 AS id, sum(r.a) AS k FROM r JOIN u ON r.a < u.val GROUP BY 1 HAVING id > 3
SELECT max(r.a) AS a, sum(r.a) AS k FROM r JOIN u ON r.a < u.val GROUP BY r.id HAVING a > 3
SELECT 1 | r.id << 2, r.id & 3 << 1, r.id ^ s.id >> 1, 1 | r.id & 2, -8 >>> 1 FROM r JOIN s ON r.id & 3 << 1 = s.id & 3 << 1
SELECT count(r.a > 1 OR r.id > 2) FILTER (WHERE r.id = 1 OR r.a = 2), count(NOT r.x > 1, r.a), count(r.n = 'x' AND r.a > 1, r.id), count(r.a IN (1, 2), r.id) FROM r JOIN s ON r.a < s.a
SELECT * FROM (SELECT a, id FROM r) q JOIN (SELECT a AS c FROM t) s ON q.a < s.c LEFT ANTI JOIN s u USING (id)
SELECT * FROM (SELECT a, id, n FROM r) q JOIN (SELECT a AS c FROM t) s ON q.a < s.c LEFT SEMI JOIN s u USING (n, id)
SELECT count(q.o) FILTER (WHERE q.o > 1) AS c, min(q.o) AS m, t.id FROM (SELECT 3 AS o, r.a FROM r JOIN s ON r.id = s.id) q JOIN t ON q.a < t.a AND q.o < t.id GROUP BY t.id
SELECT * EXCEPT (r.a) FROM r JOIN s ON r.a < s.a
SELECT * EXCEPT (r.a, n) FROM r JOIN (SELECT id AS k, a FROM s) s ON r.a < s.a
SELECT r.id FROM r JOIN s ON (r.a > 1) = (s.a > 1)
SELECT r.id FROM r JOIN s ON r.a > 1 = true = (s.a > 1)
SELECT arrays_zip(q.p, q.o, array(q.id)) FROM (SELECT array(r.id) AS p, array(s.a) AS o, r.id FROM r JOIN s ON r.a < s.a) q JOIN t ON q.id < t.id
SELECT arrays_zip(r.p, s.o) FROM (SELECT id, array(id, a) AS p FROM r) r JOIN (SELECT a, array(x) AS o FROM s) s ON r.id < s.a
SELECT * EXCEPT (r.id) FROM r JOIN s USING (id)
SELECT t.id FROM t JOIN c ON t.a < c.id SEMI JOIN (VALUES (1), (3)) AS v(i) ON c.id + v.i > 3 JOIN (r q JOIN s z ON q.id < z.id) ON t.d = z.d WHERE greatest(t.id, z.a, q.id) >= t.id
SELECT s.*, r.* FROM r JOIN s USING (d, a)
SELECT t.*, s.*, r.* FROM r JOIN s USING (d, a) JOIN t USING (a)
SELECT s.*, r.*, t.* FROM r FULL JOIN s USING (d, a) RIGHT JOIN t USING (a) JOIN u ON u.val < t.a
SELECT q.*, r.* FROM r JOIN (SELECT s.d AS d, s.a, t.id FROM s JOIN t USING (d)) q USING (id)
SELECT s.* EXCEPT (x), r.*, u.* FROM r JOIN (s JOIN u ON s.a < u.val) USING (d)
SELECT r.*, t.* FROM r LEFT ANTI JOIN s USING (d) JOIN t USING (n, a)
SELECT s.* FROM r JOIN s USING (m) UNION ALL SELECT t.* FROM r LEFT JOIN t USING (m) JOIN u ON t.a < u.val
SELECT r.id FROM r JOIN s ON r.a < s.a IS NULL
SELECT q.id, t.a FROM (SELECT id, a + 1, n FROM s) q JOIN (SELECT a FROM t) t ON q.id < t.a
SELECT * FROM (SELECT a + 1, id FROM s) q JOIN (SELECT a AS e FROM t) t ON q.id < t.e
SELECT * FROM (SELECT DISTINCT r.a + 1, s.id FROM r JOIN s ON r.a < s.a) q JOIN (SELECT a AS e FROM t) t ON q.id < t.e
WITH q AS (SELECT upper(r.n), count(*), s.id FROM r JOIN s ON r.a < s.a GROUP BY r.n, s.id) SELECT * FROM q x JOIN q y ON x.id < y.id
WITH q AS (SELECT * FROM r) SELECT * FROM (WITH q AS (SELECT * FROM q WHERE a > 1) SELECT q.a FROM q JOIN s ON q.a < s.a)
WITH q AS (SELECT * FROM r) SELECT x.id, y.m FROM q x JOIN (WITH q AS (SELECT id, a AS m FROM q WHERE a > 1) SELECT m FROM q) y ON x.a < y.m LEFT JOIN (WITH q AS (SELECT id FROM s) SELECT q.id FROM q) z ON z.id = y.m JOIN t ON t.a < x.id
SELECT -128Y, -32768S, -9223372036854775808L, r.id * 1.55BD, 1.5F, -1.50bd, - -2BD FROM r JOIN s ON r.a - s.a < -1.5BD
SELECT r.id, s.id FROM r JOIN s ON r.ts < s.ts - INTERVAL '0' HOUR '3' MINUTE
SELECT r.id, s.id FROM r JOIN s ON r.ts > s.ts - INTERVAL 0 HOUR 3 MINUTES AND r.ts <= s.ts + INTERVAL 0 HOURS 2 MINUTES
SELECT r.ts - INTERVAL 1 DAY 2 HOURS, INTERVAL 1 HOUR 30 MINUTES / 2, s.d - INTERVAL 1 YEAR 2 MONTHS, - INTERVAL 1 DAY 2 HOURS FROM r JOIN s ON r.id = s.id WHERE s.ts > r.ts - INTERVAL 0 HOURS 5 MINUTES
SELECT r.d + INTERVAL 1 DAY + 1, r.ts + INTERVAL 1 DAY + 2 * INTERVAL 1 HOUR FROM r JOIN s ON r.id = s.id
SELECT t.a, t.id FROM (SELECT 2 AS c, r.id FROM r JOIN s ON r.id = s.id) q JOIN t ON t.id = q.id ORDER BY q.c, t.a, t.id LIMIT 3
SELECT q.one, t.a, count(*) AS n FROM (SELECT 1 AS one, r.id FROM r JOIN s ON r.id = s.id) q JOIN t ON t.id = q.id GROUP BY q.one, t.a WITH ROLLUP
SELECT q.c, t.n, count(*) AS n FROM (SELECT 2 AS c, r.id FROM r JOIN s ON r.id = s.id) q JOIN t ON t.id = q.id GROUP BY q.c, t.n
SELECT t.n FROM (SELECT 'x' AS c, r.id FROM r JOIN s ON r.id = s.id) q JOIN t ON t.id = q.id GROUP BY q.c, t.n
SELECT q.c + 1 AS c, sum(t.a) AS b FROM (SELECT 3 AS c, r.id FROM r JOIN s ON r.id = s.id) q JOIN t ON t.id = q.id GROUP BY q.c + 1 HAVING q.c + 1 > 2
SELECT r.m * 2L, r.m / 3S, r.m - +2, 1.5 + 2L, r.n > -1::string FROM r JOIN s ON r.id = s.id
SELECT r.id FROM r JOIN s ON r.m / 3S = (s.m + 0.0) / 3
SELECT r.id, sum(r.m * 2L) AS x, avg(r.m + 1L) AS y, sum(r.m * +1) AS z, max(r.m - +2) AS w FROM r JOIN s ON r.a < s.a GROUP BY r.id
SELECT r.id FROM r JOIN s ON r.a - s.a < 2L AND r.id - s.id <= +1
SELECT t.m * q.c AS a, t.m / q.k AS b, t.m * q.l AS c, q.y, q.c + q.k AS d FROM (SELECT 2 AS c, -2 AS k, 3L AS l, -128Y AS y, r.id FROM r JOIN s ON r.id = s.id) q JOIN t ON t.id = q.id AND t.a - q.c < 2 AND q.l <> t.a ORDER BY q.k, q.l
SELECT CAST(r.ts AS TIMESTAMP WITHOUT TIME ZONE) FROM r JOIN s ON r.id = s.id
SELECT DATE 'epoch', TIMESTAMP 'epoch', TIMESTAMP_NTZ '2024-01-01 00:00:00' FROM r JOIN s ON r.a < s.a
SELECT * FROM (SELECT r.id, s.a FROM r JOIN s ON r.a < s.a) AS q (k, l) JOIN t ON q.k < t.a
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize("sql", QUERIES)
def test_queries_that_people_write(spark: SparkSession, sql: str) -> None:
    assert check(spark, sql) != "refused by Spark"


@pytest.mark.parametrize("seed", range(20))
def test_random_queries(spark: SparkSession, seed: int) -> None:
    """`make fuzz` runs as many as there is time for."""
    check(spark, random_query(random.Random(seed)), batch=seed % 2 == 0)


@pytest.mark.skipif(not CASES, reason="TRIJOIN_RANDOM_QUERIES=n lets hypothesis look for differences, and shrink them")
@settings(max_examples=max(CASES, 1), derandomize=False, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.booleans())
def test_random_queries_that_shrink(spark: SparkSession, dice: random.Random, batch: bool) -> None:
    check(spark, random_query(dice), batch)


@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_bands_around_a_change_to_summer_time(spark: SparkSession, zone: str) -> None:
    """Spark shifts by hours in elapsed time, by days on the calendar, and subtracts on the wall clock."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        ends = "TIMESTAMP'2024-03-09 22:00:00', TIMESTAMP'2024-03-10 22:00:00'"
        times = f"SELECT explode(sequence({ends}, INTERVAL 1 HOUR))"
        for name in "rs":
            spark.sql(f"SELECT 1 AS id, ts FROM ({times} AS ts)").createOrReplaceTempView(f"clock_{name}")
        for condition in (
            "r.ts BETWEEN s.ts - INTERVAL 3 HOURS AND s.ts + INTERVAL 20 HOURS",
            "r.ts <= s.ts - INTERVAL 1 DAY",
            "r.ts - s.ts BETWEEN INTERVAL 2 HOURS AND INTERVAL 3 HOURS",
            "ABS(r.ts - s.ts) < INTERVAL 4 HOURS",
        ):
            sql = f"SELECT r.ts, s.ts FROM clock_r r JOIN clock_s s ON {condition}"
            result = rewrite(sql, CLOCKS)
            assert result.plan is not None
            for name, view in views(result):
                spark.sql(view).createOrReplaceTempView(name)
            assert bag(spark.sql(result.plan.sql)) == bag(spark.sql(sql)), condition
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
