-- Which trades had no quote near their price in the second before? A row without a partner leaves when none can come.
CREATE STREAM trades (id BIGINT, price DOUBLE, size INT, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 5 SECONDS;
CREATE STREAM quotes (price DOUBLE, ts TIMESTAMP) USING rate WATERMARK ts DELAY OF INTERVAL 5 SECONDS;
SELECT t.id, t.price, q.price AS quoted, q.ts AS quoted_at
FROM trades AS t LEFT JOIN quotes AS q
ON ABS(t.price - q.price) < 0.5 AND q.ts BETWEEN t.ts - INTERVAL 1 SECOND AND t.ts AND t.size > 100 AND q.price > 0
