-- 002 figure 4: a non-materializing operator over R, S and T, each of which is stored once, in two units.
CREATE STREAM r (a INT, b INT)
  USING json OPTIONS (path 'data/r');
CREATE STREAM s (a INT, b INT)
  USING json OPTIONS (path 'data/s');
CREATE STREAM t (a INT, b INT)
  USING json OPTIONS (path 'data/t');
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT /*+ SCHEME('non_materializing') UNITS(2) */ r.a, s.b, t.a AS ta
FROM r JOIN s ON r.a = s.a JOIN t ON s.b < t.b;
