-- The hint says no; Spark's own hint stays.
CREATE STREAM r (a INT) USING rate;
CREATE STREAM s (a INT) USING rate;
SELECT /*+ NO_TRIJOIN, BROADCAST(s) */ r.a FROM r JOIN s ON r.a = s.a
