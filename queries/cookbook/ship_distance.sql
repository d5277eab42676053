-- Which ships come closer to each other than their stretch of the canal allows? How close that is stands in a table, a
-- CSV file beside the stream: Spark joins it, by a range of kilometres.
CREATE STREAM ships (ship INT, km DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/ships') WATERMARK ts DELAY OF INTERVAL 30 SECONDS;
CREATE TEMPORARY VIEW stretches (stretch STRING, begins DOUBLE, ends DOUBLE, apart DOUBLE)
  USING csv OPTIONS (path 'data/stretches.csv', header 'true');
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT stretches.stretch, a.ship, b.ship AS other, ROUND(ABS(a.km - b.km), 2) AS apart, a.ts
FROM ships AS a
JOIN ships AS b ON a.ship < b.ship AND ABS(a.km - b.km) < 2
JOIN stretches ON a.km >= stretches.begins AND a.km < stretches.ends AND ABS(a.km - b.km) < stretches.apart
WITHIN 20 SECONDS;
