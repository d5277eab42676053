-- Outer joins are borders: the inner joins on both sides of one become nodes.
CREATE STREAM r (k INT, v INT) USING rate;
CREATE STREAM s (k INT, v INT) USING rate;
CREATE STREAM t (k INT, v INT) USING rate;
CREATE STREAM u (k INT, v INT) USING rate;
SELECT r.k, s.v, t.v AS tv, u.v AS uv
FROM (r JOIN s ON r.k = s.k AND r.v < s.v) LEFT JOIN (t JOIN u ON t.k = u.k AND t.v > u.v) ON r.k = t.k
WHERE s.v > 3
