-- No bound on event time: every row is kept for ever, and the advice says so.
CREATE STREAM r (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM s (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM t (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
SELECT r.id, s.id AS sid, t.id AS tid FROM r, s, t WHERE r.v <= s.v AND s.v BETWEEN t.v - 1 AND t.v + 1
