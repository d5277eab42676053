-- Several groups: a common table expression that is aggregated, a subquery in a predicate, a UNION branch.
CREATE STREAM r (k INT, v INT) USING rate;
CREATE STREAM s (k INT, v INT) USING rate;
CREATE STREAM t (k INT, v INT) USING rate;
CREATE STREAM u (k INT, v INT) USING rate;
WITH best AS (SELECT r.k, MAX(s.v) AS v FROM r JOIN s ON r.k = s.k AND r.v < s.v GROUP BY r.k)
SELECT b.k, t.v, u.v AS uv
FROM best AS b JOIN t ON b.k = t.k JOIN u ON t.v <= u.v
WHERE b.v IN (SELECT x.v FROM t AS x JOIN u AS y ON x.k = y.k)
UNION ALL
SELECT r.k, s.v, t.v FROM r, s, t WHERE r.v = s.v AND s.v = t.v
