-- A semi join is a border, and there is no inner join here.
CREATE STREAM r (a INT) USING rate;
CREATE STREAM s (a INT) USING rate;
SELECT r.a FROM r LEFT SEMI JOIN s ON r.a = s.a
