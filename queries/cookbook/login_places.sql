-- Who logged in from two places that are too far apart for a plane, with no logout in between? The second login comes
-- within half an hour. A logout after it changes nothing.
CREATE STREAM logins (user INT, city STRING, lat DOUBLE, lon DOUBLE, ts TIMESTAMP)
  USING json OPTIONS (path 'data/logins') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM logouts (user INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/logouts') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT a.user, a.city, b.city AS other, a.ts AS first_login, b.ts AS second_login
FROM logins AS a
JOIN logins AS b ON b.user = a.user AND b.ts > a.ts AND b.ts <= a.ts + INTERVAL 30 MINUTES
WHERE POWER(111 * (b.lat - a.lat), 2) + POWER(70 * (b.lon - a.lon), 2)
    > POWER(0.25 * (UNIX_SECONDS(b.ts) - UNIX_SECONDS(a.ts)), 2)
  AND NOT EXISTS (SELECT 1 FROM logouts AS o WHERE o.user = a.user AND o.ts > a.ts AND o.ts < b.ts);
