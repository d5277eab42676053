-- A LATERAL relation depends on the relations before it.
CREATE STREAM r (a INT) USING rate;
CREATE STREAM s (a INT) USING rate;
SELECT r.a, q.a AS qa FROM r JOIN s ON r.a = s.a, LATERAL (SELECT x.a FROM s AS x WHERE x.a = r.a) AS q
