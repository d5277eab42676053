-- When does dollars to yen by way of the euro pay? Three quotes within a second and a half, and a product of two prices
-- against a third, which Spark filters after the join.
CREATE STREAM eurusd (bid DOUBLE, ask DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/eurusd') WATERMARK ts DELAY OF INTERVAL 2 SECONDS;
CREATE STREAM usdjpy (bid DOUBLE, ask DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/usdjpy') WATERMARK ts DELAY OF INTERVAL 2 SECONDS;
CREATE STREAM eurjpy (bid DOUBLE, ask DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/eurjpy') WATERMARK ts DELAY OF INTERVAL 2 SECONDS;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT d.ts, d.ask AS eurusd, y.ask AS usdjpy, e.bid AS eurjpy, e.bid / (d.ask * y.ask) - 1 AS gain
FROM eurusd AS d
JOIN usdjpy AS y ON y.ts BETWEEN d.ts - INTERVAL 1500 MILLISECONDS AND d.ts + INTERVAL 1500 MILLISECONDS
JOIN eurjpy AS e ON e.ts BETWEEN d.ts - INTERVAL 1500 MILLISECONDS AND d.ts + INTERVAL 1500 MILLISECONDS
WHERE e.bid > d.ask * y.ask;
