-- Which orders were shipped before they were paid, or more than ten minutes after?
CREATE STREAM orders (id BIGINT, total DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/orders') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM paid (order_id BIGINT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/paid') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM shipments (order_id BIGINT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/shipments') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT o.id, o.total, o.ts AS ordered, p.ts AS paid, s.ts AS shipped
FROM orders AS o
JOIN paid AS p ON p.order_id = o.id AND p.ts BETWEEN o.ts AND o.ts + INTERVAL 2 HOURS
JOIN shipments AS s ON s.order_id = o.id AND s.ts BETWEEN o.ts AND o.ts + INTERVAL 4 HOURS
WHERE s.ts < p.ts OR s.ts > p.ts + INTERVAL 10 MINUTES;
