-- Results into a table of PostgreSQL, each once, also after a crash. It needs psycopg, and a database:
--   pip install 'psycopg[binary]'
--   export TRIJOIN_POSTGRES='host=localhost dbname=test'
--   trijoin-sql run job.sql
CREATE STREAM orders USING rate OPTIONS (rowsPerSecond 5) WATERMARK timestamp DELAY OF INTERVAL 5 SECONDS;
CREATE STREAM payments USING rate OPTIONS (rowsPerSecond 5) WATERMARK timestamp DELAY OF INTERVAL 5 SECONDS;

-- The function is in to_postgres.py, beside this file.
CREATE SINK near USING foreachBatch
  OPTIONS (function 'to_postgres:write', checkpointLocation 'checkpoints/near')
  TRIGGER PROCESSING TIME '5 seconds';

INSERT INTO near
SELECT o.value AS ordered, p.value AS paid, o.timestamp AS at
FROM orders AS o JOIN payments AS p ON o.value <> p.value AND ABS(o.value - p.value) <= 2
WITHIN 20 SECONDS;
