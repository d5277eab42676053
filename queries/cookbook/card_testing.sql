-- Which cards were tried with three small charges or more before a large one? All within ten minutes. Each small charge
-- meets the large one, and the pairs are counted: however many there are, it is one join.
CREATE STREAM charges (id BIGINT, card INT, amount DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/charges') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT big.id, big.card, big.amount, big.ts, COUNT(*) AS tries
FROM charges AS small
JOIN charges AS big ON big.card = small.card AND big.ts > small.ts AND big.ts <= small.ts + INTERVAL 10 MINUTES
WHERE small.amount < 2 AND big.amount > 200
GROUP BY big.id, big.card, big.amount, big.ts
HAVING COUNT(*) >= 3;
