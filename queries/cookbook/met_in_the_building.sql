-- Which three people stood together? One stream three times, each pair near each other in both directions.
CREATE STREAM badges (person INT, x DOUBLE, y DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/badges') WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT a.person AS one, b.person AS two, c.person AS three, a.x, a.y, a.ts
FROM badges AS a
JOIN badges AS b ON a.person < b.person AND ABS(a.x - b.x) <= 3 AND ABS(a.y - b.y) <= 3
JOIN badges AS c ON b.person < c.person AND ABS(b.x - c.x) <= 3 AND ABS(b.y - c.y) <= 3
  AND ABS(a.x - c.x) <= 3 AND ABS(a.y - c.y) <= 3
WITHIN 90 SECONDS;
