-- Two rate streams joined on a band: needs nothing but Spark. Try it:
--   trijoin-sql run queries/jobs/near_misses/job.sql                           until Ctrl-C
--   trijoin-sql run queries/jobs/near_misses/job.sql --format json | head -5    rows as JSON
CREATE STREAM orders USING rate OPTIONS (rowsPerSecond 5) WATERMARK timestamp DELAY OF INTERVAL 5 SECONDS;
CREATE STREAM payments USING rate OPTIONS (rowsPerSecond 5) WATERMARK timestamp DELAY OF INTERVAL 5 SECONDS;

-- A console sink needs no checkpoint: each run starts afresh. Files, Kafka and foreachBatch need checkpointLocation.
CREATE SINK near USING console OPTIONS (truncate false) TRIGGER PROCESSING TIME '5 seconds';

-- Statements of Spark's own may stand anywhere, and a view may hold the join.
CREATE TEMPORARY VIEW near_misses AS
SELECT o.value AS ordered, p.value AS paid, o.timestamp AS at
FROM orders AS o JOIN payments AS p ON o.value <> p.value AND ABS(o.value - p.value) <= 2
WITHIN 20 SECONDS;

INSERT INTO near SELECT ordered, paid, at FROM near_misses WHERE ordered > 10;
