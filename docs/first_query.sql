-- README's first query, with its streams declared. `trijoin-sql explain docs/first_query.sql` explains it.
CREATE STREAM heat (metre BIGINT, ts TIMESTAMP) USING json OPTIONS (path 'heat')
  WATERMARK ts DELAY OF INTERVAL 1 SECOND;
CREATE STREAM load (metre BIGINT, ts TIMESTAMP) USING json OPTIONS (path 'load')
  WATERMARK ts DELAY OF INTERVAL 1 SECOND;
CREATE STREAM noise (metre BIGINT, ts TIMESTAMP) USING json OPTIONS (path 'noise')
  WATERMARK ts DELAY OF INTERVAL 1 SECOND;

SELECT heat.metre AS heat, load.metre AS load, noise.metre AS noise
FROM heat JOIN load ON ABS(heat.metre - load.metre) < 5
JOIN noise ON ABS(load.metre - noise.metre) < 5 AND ABS(noise.metre - heat.metre) < 5
WITHIN 10 SECONDS;
