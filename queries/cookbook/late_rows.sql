-- In which lorries was it warm soon after a door opened, and which readings came too late to tell? A lorry without a network
-- sends its readings later. They miss the join, and go into a sink of their own. To keep them, write USING parquet
-- OPTIONS (path '...', checkpointLocation '...') for both sinks.
CREATE STREAM doors (id BIGINT, lorry INT, ts TIMESTAMP, came TIMESTAMP)
  USING json OPTIONS (path 'data/doors', maxFilesPerTrigger 1) WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM readings (id BIGINT, lorry INT, celsius DOUBLE, ts TIMESTAMP, came TIMESTAMP)
  USING json OPTIONS (path 'data/readings', maxFilesPerTrigger 1) WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);
CREATE SINK too_late USING console OPTIONS (truncate false);

INSERT INTO found
SELECT d.lorry, d.ts AS opened, r.celsius, r.ts AS measured
FROM doors AS d
JOIN readings AS r ON r.lorry = d.lorry AND r.celsius > 7 AND r.ts BETWEEN d.ts AND d.ts + INTERVAL 3 MINUTES
LATE ROWS INTO too_late;
