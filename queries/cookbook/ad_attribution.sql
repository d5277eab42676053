-- Which purchase followed which click on which campaign? A click within ten minutes after the impression, a purchase
-- within twenty after the click; every campaign that fits gets its share.
CREATE STREAM impressions (campaign INT, user INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/impressions') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM clicks (user INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/clicks') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM purchases (user INT, value DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/purchases') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT i.campaign, p.user, p.value, c.ts AS clicked, p.ts AS bought
FROM impressions AS i
JOIN clicks AS c ON c.user = i.user AND c.ts > i.ts AND c.ts <= i.ts + INTERVAL 10 MINUTES
JOIN purchases AS p ON p.user = c.user AND p.ts > c.ts AND p.ts <= c.ts + INTERVAL 20 MINUTES;
