-- One stream with tables: Spark does that itself, without state.
CREATE STREAM r (a INT, b INT) USING rate;
CREATE TABLE c (a INT);
CREATE TABLE d (b INT);
SELECT r.a, r.b FROM r JOIN c ON r.a = c.a JOIN d ON r.b = d.b
