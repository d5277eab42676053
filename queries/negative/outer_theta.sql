-- A theta outer join: not ours, and Spark refuses it on streams; the refusal names a way out.
CREATE STREAM r (a INT) USING rate;
CREATE STREAM s (a INT) USING rate;
SELECT r.a, s.a AS sa FROM r LEFT JOIN s ON r.a < s.a
