-- Which offer of electricity meets which demand, and over which line? Prices and spans of hours must overlap, and the line
-- must be free at that time and thick enough.
CREATE STREAM offers (id BIGINT, price DOUBLE, megawatts INT, starts INT, hours INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/offers') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM demands (id BIGINT, price DOUBLE, megawatts INT, starts INT, hours INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/demands') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE STREAM lines (line INT, capacity INT, ts TIMESTAMP)
  USING json OPTIONS (path 'data/lines') WATERMARK ts DELAY OF INTERVAL 1 MINUTE;
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT o.id AS offer, d.id AS demand, l.line, o.price, d.price AS limit, d.megawatts
FROM offers AS o
JOIN demands AS d ON o.price <= d.price AND o.megawatts >= d.megawatts
  AND o.starts < d.starts + d.hours AND d.starts < o.starts + o.hours
JOIN lines AS l ON l.capacity >= d.megawatts AND l.capacity < d.megawatts + 5
WITHIN 3 MINUTES;
