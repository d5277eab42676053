-- Where is bad air near much traffic? Sensors of two kinds, at most 80 metres apart in the plane, within a minute. Every pair
-- of sensors would be compared if nothing followed from the distance; two bands do, one for x and one for y.
CREATE STREAM air (sensor INT, x DOUBLE, y DOUBLE, dust INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/air') WATERMARK ts DELAY OF INTERVAL 30 SECONDS;
CREATE STREAM traffic (sensor INT, x DOUBLE, y DOUBLE, cars INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/traffic') WATERMARK ts DELAY OF INTERVAL 30 SECONDS;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT a.sensor AS air_sensor, t.sensor AS traffic_sensor, a.dust, t.cars, a.ts
FROM air AS a JOIN traffic AS t
  ON POWER(a.x - t.x, 2) + POWER(a.y - t.y, 2) <= 80 * 80
WHERE a.dust > 60 AND t.cars > 30
WITHIN 60 SECONDS;
