-- Nexmark query 20: bids with their auction, filtered by category.
CREATE STREAM person (id BIGINT, name STRING, email STRING, city STRING, state STRING, ts TIMESTAMP) USING rate
  WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
CREATE STREAM auction (id BIGINT, item STRING, initial_bid BIGINT, reserve BIGINT, ts TIMESTAMP, expires TIMESTAMP,
  seller BIGINT, category BIGINT) USING rate WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP) USING rate
  WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
SELECT b.auction, b.bidder, b.price, b.channel, b.ts, a.item, a.initial_bid, a.reserve, a.seller, a.category
FROM bid AS b INNER JOIN auction AS a ON b.auction = a.id
WHERE a.category = 10
