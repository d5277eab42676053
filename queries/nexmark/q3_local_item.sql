-- Nexmark query 3: who is selling in some states, in one category? An equality of two streams.
CREATE STREAM person (id BIGINT, name STRING, email STRING, city STRING, state STRING, ts TIMESTAMP) USING rate
  WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
CREATE STREAM auction (id BIGINT, item STRING, initial_bid BIGINT, reserve BIGINT, ts TIMESTAMP, expires TIMESTAMP,
  seller BIGINT, category BIGINT) USING rate WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, ts TIMESTAMP) USING rate
  WATERMARK ts DELAY OF INTERVAL 4 SECONDS;
SELECT p.name, p.city, p.state, a.id
FROM auction AS a JOIN person AS p ON a.seller = p.id
WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')
