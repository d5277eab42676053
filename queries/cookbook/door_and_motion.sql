-- Where did a door open, then someone move in the hall, then at the safe, with no code entered? All within ten minutes; a
-- later code changes nothing. A row comes when the watermark has passed ten minutes after the door.
CREATE STREAM front_doors (id BIGINT, house INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/front_doors') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM motions (house INT, room STRING, ts TIMESTAMP)
  USING json OPTIONS (path 'data/motions') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM codes (house INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/codes') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT d.id, d.house, d.ts AS opened, h.ts AS in_the_hall, s.ts AS at_the_safe
FROM front_doors AS d
JOIN motions AS h ON h.house = d.house AND h.room = 'hall' AND h.ts > d.ts
JOIN motions AS s ON s.house = h.house AND s.room = 'safe' AND s.ts > h.ts AND s.ts <= d.ts + INTERVAL 10 MINUTES
WHERE NOT EXISTS (SELECT 1 FROM codes AS c WHERE c.house = d.house AND c.ts BETWEEN d.ts AND s.ts);
