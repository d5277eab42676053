-- 001 section 6.1, the chain join of TriJoin's evaluation.
CREATE STREAM r (str STRING, d DOUBLE, l BIGINT, i INT, im INT, str2 STRING)
  USING json OPTIONS (path 'data/r');
CREATE STREAM s (str STRING, d DOUBLE, l BIGINT, i INT, im INT, str2 STRING)
  USING json OPTIONS (path 'data/s');
CREATE STREAM t (str STRING, d DOUBLE, l BIGINT, i INT, im INT, str2 STRING)
  USING json OPTIONS (path 'data/t');
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT r.l AS r, s.l AS s, t.l AS t FROM r, s, t
WHERE ABS(r.i - s.i) < 3 AND ABS(s.im - t.im) < 3;
