-- Which flow inside is which flow outside, where address translation leaves no common identifier? The same target, nearly
-- the same bytes and packets, at nearly the same time.
CREATE STREAM inside (source STRING, target STRING, bytes BIGINT, packets INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/inside') WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE STREAM outside (target STRING, bytes BIGINT, packets INT, port INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/outside') WATERMARK ts DELAY OF INTERVAL 10 SECONDS;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT i.source, o.port, i.target, i.bytes, o.bytes - i.bytes AS more_bytes
FROM inside AS i JOIN outside AS o
  ON i.target = o.target AND ABS(o.bytes - i.bytes) <= 64 AND ABS(o.packets - i.packets) <= 2
WITHIN 5 SECONDS;
