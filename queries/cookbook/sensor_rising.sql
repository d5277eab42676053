-- Which sensors rose three times in a row? Each ASOF JOIN finds the next reading of a sensor, and WHERE asks whether it
-- is higher. In ON that would find the next higher reading, and pass over lower ones before it.
CREATE STREAM levels (sensor INT, level DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/levels') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT a.sensor, a.level, b.level AS second, c.level AS third, d.level AS fourth, d.ts
FROM levels AS a
ASOF JOIN levels AS b MATCH_CONDITION (b.ts > a.ts) ON b.sensor = a.sensor AND b.ts <= a.ts + INTERVAL 3 MINUTES
ASOF JOIN levels AS c MATCH_CONDITION (c.ts > b.ts) ON c.sensor = b.sensor AND c.ts <= b.ts + INTERVAL 3 MINUTES
ASOF JOIN levels AS d MATCH_CONDITION (d.ts > c.ts) ON d.sensor = c.sensor AND d.ts <= c.ts + INTERVAL 3 MINUTES
WHERE b.level > a.level AND c.level > b.level AND d.level > c.level;
