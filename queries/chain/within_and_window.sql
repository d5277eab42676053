-- WITHIN bounds every pair; a window of the results' event time, the latest of all inputs', is aggregated above the join.
CREATE STREAM r (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM s (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM t (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
SELECT window(greatest(r.ts, s.ts, t.ts), '1 minute') AS w, COUNT(*) AS hits
FROM r JOIN s ON r.id = s.id JOIN t ON s.v > t.v
WHERE r.v > 0
WITHIN 10 MINUTES
GROUP BY window(greatest(r.ts, s.ts, t.ts), '1 minute')
