-- Which vans were inside a closed zone while it was closed? Six comparisons, no equality.
CREATE STREAM positions (van INT, lat DOUBLE, lon DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/positions') WATERMARK ts DELAY OF INTERVAL 30 SECONDS;
CREATE STREAM closures (zone INT, south DOUBLE, north DOUBLE, west DOUBLE, east DOUBLE, until TIMESTAMP, ts TIMESTAMP)
  USING json OPTIONS (path 'data/closures') WATERMARK ts DELAY OF INTERVAL 30 SECONDS;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT p.van, c.zone, p.lat, p.lon, p.ts
FROM positions AS p JOIN closures AS c
  ON p.lat BETWEEN c.south AND c.north AND p.lon BETWEEN c.west AND c.east
  -- No closure is longer than 15 minutes: the second bound is what lets old closures and positions go.
  AND p.ts BETWEEN c.ts AND c.until AND p.ts <= c.ts + INTERVAL 15 MINUTES;
