-- Two streams: the equality decides the routing, the range is checked with it.
CREATE STREAM orders (id BIGINT, customer BIGINT, placed TIMESTAMP) USING rate WATERMARK placed DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM payment (order_id BIGINT, paid TIMESTAMP) USING rate WATERMARK paid DELAY OF INTERVAL 1 MINUTE;
SELECT o.id, p.paid
FROM orders AS o JOIN payment AS p ON o.id = p.order_id AND p.paid >= o.placed AND p.paid < o.placed + INTERVAL 2 HOURS
