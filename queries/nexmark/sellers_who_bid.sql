-- All three Nexmark streams: bids above the reserve, with the auction and its seller; a chain with the hub auction.
CREATE STREAM person (id BIGINT, name STRING, email STRING, city STRING, state STRING, ts TIMESTAMP) USING rate
  WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
CREATE STREAM auction (id BIGINT, item STRING, initial_bid BIGINT, reserve BIGINT, ts TIMESTAMP, expires TIMESTAMP,
  seller BIGINT, category BIGINT) USING rate WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP) USING rate
  WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
SELECT p.name, a.item, b.price - a.reserve AS above
FROM person AS p JOIN auction AS a ON p.id = a.seller JOIN bid AS b ON a.id = b.auction AND b.price > a.reserve
WHERE b.ts BETWEEN a.ts AND a.ts + INTERVAL 20 MINUTES AND a.ts BETWEEN p.ts AND p.ts + INTERVAL 1 HOUR
