-- A derived table that only projects joins its relations to the group around it.
CREATE STREAM r (k INT, v INT) USING rate;
CREATE STREAM s (k INT, v INT) USING rate;
CREATE STREAM t (k INT, v INT) USING rate;
SELECT q.total, t.v
FROM (SELECT r.k, r.v + s.v AS total FROM r JOIN s ON r.k = s.k WHERE r.v > 0) AS q JOIN t ON q.total > t.v AND q.k <> t.k
