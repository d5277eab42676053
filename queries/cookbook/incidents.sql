-- Which deployment made a service slow and faulty? Errors within five minutes after it, latency far over its baseline within
-- half a minute of the errors.
CREATE STREAM deployments (build INT, service STRING, baseline_ms INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/deployments') WATERMARK ts DELAY OF INTERVAL 30 SECONDS;
CREATE STREAM errors (service STRING, per_minute INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/errors') WATERMARK ts DELAY OF INTERVAL 30 SECONDS;
CREATE STREAM latencies (service STRING, p99_ms INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/latencies') WATERMARK ts DELAY OF INTERVAL 30 SECONDS;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT d.build, d.service, e.per_minute, l.p99_ms, d.baseline_ms, e.ts
FROM deployments AS d
JOIN errors AS e ON e.service = d.service AND e.per_minute > 20
  AND e.ts BETWEEN d.ts AND d.ts + INTERVAL 5 MINUTES
JOIN latencies AS l ON l.service = e.service AND l.p99_ms > d.baseline_ms * 3
  AND l.ts BETWEEN e.ts - INTERVAL 30 SECONDS AND e.ts + INTERVAL 30 SECONDS;
