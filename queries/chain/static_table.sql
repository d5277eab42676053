-- A table joined to one stream goes below the group, one joined to two streams above it.
CREATE STREAM r (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM s (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM t (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE TABLE sensor (id BIGINT, place STRING);
CREATE TABLE route (origin BIGINT, target BIGINT, km DOUBLE);
SELECT p.place, r.v, s.v AS sv, t.v AS tv, k.km
FROM r JOIN s ON r.v < s.v JOIN t ON s.v < t.v
  JOIN sensor AS p ON p.id = r.id
  JOIN route AS k ON k.origin = r.id AND k.target = t.id
