-- Which cards paid nearly the same sum in two countries within five minutes?
CREATE STREAM payments (id BIGINT, card INT, amount DOUBLE, country STRING, ts TIMESTAMP)
  USING json OPTIONS (path 'data/payments') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT p.card, p.id AS first_payment, q.id AS second_payment, p.country AS here, q.country AS there, q.amount
FROM payments AS p JOIN payments AS q
  ON p.card = q.card AND p.country <> q.country
  AND q.amount BETWEEN p.amount * 0.98 AND p.amount * 1.02
  AND q.ts > p.ts AND q.ts <= p.ts + INTERVAL 5 MINUTES;
