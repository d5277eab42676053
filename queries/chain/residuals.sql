-- What the kernel cannot compare is a residual: LIKE, OR over two relations, a sum over three.
CREATE STREAM r (a INT, n STRING) USING rate;
CREATE STREAM s (a INT, n STRING) USING rate;
CREATE STREAM t (a INT, n STRING) USING rate;
SELECT r.n, s.n AS sn, t.n AS tn
FROM r JOIN s ON r.a >= s.a AND s.n LIKE CONCAT(r.n, '%') JOIN t ON s.a = t.a AND (s.n = t.n OR t.a > s.a + 2)
WHERE r.a + s.a + t.a > 10
