-- Which camera saw which stolen car? By its plate, or else a car of its colour where it was stolen, within ten minutes.
CREATE STREAM stolen (id BIGINT, plate STRING, colour STRING, km DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/stolen') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM sightings (camera INT, plate STRING, colour STRING, km DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/sightings') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT c.id, s.camera, s.plate, s.km, s.ts AS seen
FROM stolen AS c
JOIN sightings AS s
  ON (s.plate = c.plate OR s.plate IS NULL AND s.colour = c.colour AND ABS(s.km - c.km) < 2)
  AND s.ts BETWEEN c.ts AND c.ts + INTERVAL 10 MINUTES;
