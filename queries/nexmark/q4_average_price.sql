-- Nexmark query 4: the average closing price of each category. The join is below two aggregations.
CREATE STREAM person (id BIGINT, name STRING, email STRING, city STRING, state STRING, ts TIMESTAMP) USING rate
  WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
CREATE STREAM auction (id BIGINT, item STRING, initial_bid BIGINT, reserve BIGINT, ts TIMESTAMP, expires TIMESTAMP,
  seller BIGINT, category BIGINT) USING rate WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP) USING rate
  WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
SELECT q.category, AVG(q.final) AS average
FROM (
  SELECT MAX(b.price) AS final, a.category
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
  GROUP BY a.id, a.category
) AS q
GROUP BY q.category
