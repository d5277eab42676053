-- A column that no known schema holds.
CREATE STREAM r (a INT) USING rate;
CREATE STREAM s (a INT) USING rate;
SELECT r.a, nowhere FROM r JOIN s ON r.a < s.a
