-- Which invoices were not paid within twenty minutes? A transfer names no invoice: it pays one if it is the same sum, or
-- at most half a unit less. A row comes when no such transfer can come any more.
CREATE STREAM invoices (id BIGINT, customer INT, total DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/invoices') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM transfers (amount DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/transfers') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT i.id, i.customer, i.total, i.ts AS sent
FROM invoices AS i
LEFT ANTI JOIN transfers AS t
  ON i.total - t.amount BETWEEN 0 AND 0.5 AND t.ts BETWEEN i.ts AND i.ts + INTERVAL 20 MINUTES;
