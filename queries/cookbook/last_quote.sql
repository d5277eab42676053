-- Which trades were made outside of the last quote before them? Of each symbol only the last quote is kept. A trade is
-- compared when the watermark has passed it: then no quote can come between the two any more.
CREATE STREAM trades (id BIGINT, symbol STRING, price DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/trades') WATERMARK ts DELAY OF INTERVAL 5 SECONDS;
CREATE STREAM quotes (symbol STRING, bid DOUBLE, ask DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/quotes') WATERMARK ts DELAY OF INTERVAL 5 SECONDS;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT t.id, t.symbol, t.price, q.bid, q.ask, t.ts AS traded, q.ts AS quoted
FROM trades AS t
LEFT ASOF JOIN quotes AS q MATCH_CONDITION (q.ts <= t.ts) ON q.symbol = t.symbol
WHERE q.bid IS NULL OR t.price NOT BETWEEN q.bid AND q.ask;
