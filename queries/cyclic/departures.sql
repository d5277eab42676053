-- Departures from three airports within one minute of each other: the demo's cyclic query.
CREATE STREAM ewr (flight INT, ts TIMESTAMP) USING parquet WATERMARK ts DELAY OF INTERVAL 1 HOUR;
CREATE STREAM jfk (flight INT, ts TIMESTAMP) USING parquet WATERMARK ts DELAY OF INTERVAL 1 HOUR;
CREATE STREAM lga (flight INT, ts TIMESTAMP) USING parquet WATERMARK ts DELAY OF INTERVAL 1 HOUR;
SELECT e.flight, j.flight AS jf, l.flight AS lf
FROM ewr AS e
  JOIN jfk AS j ON j.ts BETWEEN e.ts - INTERVAL 1 MINUTE AND e.ts + INTERVAL 1 MINUTE
  JOIN lga AS l ON l.ts BETWEEN j.ts - INTERVAL 1 MINUTE AND j.ts + INTERVAL 1 MINUTE
    AND l.ts BETWEEN e.ts - INTERVAL 1 MINUTE AND e.ts + INTERVAL 1 MINUTE
