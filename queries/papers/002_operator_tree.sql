-- 002 section 1.1: theta(R, S) AND theta(S, T) AND theta(T, U), a chain of four for which operator trees are compared.
CREATE STREAM r (a INT, b INT)
  USING json OPTIONS (path 'data/r');
CREATE STREAM s (a INT, b INT)
  USING json OPTIONS (path 'data/s');
CREATE STREAM t (a INT, b INT)
  USING json OPTIONS (path 'data/t');
CREATE STREAM u (a INT, b INT)
  USING json OPTIONS (path 'data/u');
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT /*+ SCHEME('operator_tree((r, s), (t, u))') */ r.a, s.b, t.a AS ta, u.b AS ub
FROM r JOIN s ON r.a = s.a JOIN t ON s.b < t.b JOIN u ON t.a BETWEEN u.a - 2 AND u.a + 2;
