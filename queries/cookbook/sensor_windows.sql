-- Where along a pipe do heat, pressure and vibration rise together? Nothing but place and time ties the sensors to one
-- another. Hot spots are counted for every ten minutes.
CREATE STREAM temperature (metre DOUBLE, reading DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/temperature') WATERMARK ts DELAY OF INTERVAL 30 SECONDS;
CREATE STREAM pressure (metre DOUBLE, reading DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/pressure') WATERMARK ts DELAY OF INTERVAL 30 SECONDS;
CREATE STREAM vibration (metre DOUBLE, reading DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/vibration') WATERMARK ts DELAY OF INTERVAL 30 SECONDS;
-- MODE append would print a window once, when no reading for it can come any more.
CREATE SINK found USING console OPTIONS (truncate false) MODE complete;

CREATE TEMPORARY VIEW hot_spots AS
SELECT t.metre, GREATEST(t.ts, p.ts, v.ts) AS ts
FROM temperature AS t
JOIN pressure AS p ON ABS(t.metre - p.metre) <= 25 AND p.reading > 4
JOIN vibration AS v ON ABS(p.metre - v.metre) <= 25 AND ABS(t.metre - v.metre) <= 25 AND v.reading > 2
WHERE t.reading > 50
WITHIN 2 MINUTES;

INSERT INTO found
SELECT window.start, COUNT(*) AS hot_spots, MIN(metre) AS from_metre, MAX(metre) AS to_metre
FROM hot_spots GROUP BY window(ts, '10 minutes');
