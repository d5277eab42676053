-- From when to when did a visit last? It begins with a click that has none in the ten minutes before it, and ends with
-- the next click that has none in the ten minutes after it. Visits of more than an hour are left out.
CREATE STREAM page_clicks (visitor INT, page STRING, ts TIMESTAMP)
  USING json OPTIONS (path 'data/page_clicks') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT b.visitor, b.page AS entered_by, e.page AS left_from, b.ts AS began, e.ts AS ended
FROM (
  SELECT * FROM page_clicks AS c WHERE NOT EXISTS (
    SELECT 1 FROM page_clicks AS p WHERE p.visitor = c.visitor AND p.ts < c.ts AND p.ts >= c.ts - INTERVAL 10 MINUTES)
) AS b
ASOF JOIN (
  SELECT * FROM page_clicks AS c WHERE NOT EXISTS (
    SELECT 1 FROM page_clicks AS n WHERE n.visitor = c.visitor AND n.ts > c.ts AND n.ts <= c.ts + INTERVAL 10 MINUTES)
) AS e MATCH_CONDITION (e.ts >= b.ts) ON e.visitor = b.visitor AND e.ts <= b.ts + INTERVAL 1 HOUR;
