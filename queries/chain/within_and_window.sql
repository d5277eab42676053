-- WITHIN bounds every pair; a window of event time is aggregated above the join.
CREATE STREAM r (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM s (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM t (id BIGINT, v INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
SELECT window(s.ts, '1 minute') AS w, COUNT(*) AS hits
FROM r JOIN s ON r.id = s.id JOIN t ON s.v > t.v
WHERE r.v > 0
WITHIN 10 MINUTES
GROUP BY window(s.ts, '1 minute')
