-- Differences of doubles: the kernel gets a slightly wider range, Spark the exact conjunct.
CREATE STREAM a (x DOUBLE, y DOUBLE) USING rate;
CREATE STREAM b (x DOUBLE, y DOUBLE) USING rate;
CREATE STREAM c (x DOUBLE, y DOUBLE) USING rate;
SELECT a.x, b.x AS bx, c.x AS cx
FROM a, b, c
WHERE ABS(a.x - b.x) < 0.5 AND b.y <= c.y AND ABS(a.y - c.x) <= 1.25
