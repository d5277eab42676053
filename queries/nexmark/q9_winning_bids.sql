-- Nexmark query 9: the winning bid of each auction: a window function over the join.
CREATE STREAM person (id BIGINT, name STRING, email STRING, city STRING, state STRING, ts TIMESTAMP) USING rate
  WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
CREATE STREAM auction (id BIGINT, item STRING, initial_bid BIGINT, reserve BIGINT, ts TIMESTAMP, expires TIMESTAMP,
  seller BIGINT, category BIGINT) USING rate WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP) USING rate
  WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
SELECT q.id, q.item, q.auction, q.bidder, q.price, q.bid_time
FROM (
  SELECT a.id, a.item, b.auction, b.bidder, b.price, b.ts AS bid_time,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.ts ASC) AS place
  FROM auction AS a, bid AS b
  WHERE a.id = b.auction AND b.ts BETWEEN a.ts AND a.expires
) AS q
WHERE q.place <= 1
