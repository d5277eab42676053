-- 003 section 6.1: the join of TPC-H Q5 in which BiStream is evaluated (lineitem with the rest already joined).
CREATE STREAM lineitem (l_orderkey BIGINT, l_suppkey BIGINT, l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2))
  USING json OPTIONS (path 'data/lineitem');
CREATE STREAM r_n_s (s_suppkey BIGINT, n_nationkey INT, n_name STRING, r_name STRING)
  USING json OPTIONS (path 'data/r_n_s');
CREATE SINK found USING console OPTIONS (truncate false) MODE complete;

INSERT INTO found
SELECT /*+ ROUTING('contrand', 2), UNITS(4) */ n.n_name, SUM(l.l_extendedprice * (1 - l.l_discount)) AS revenue
FROM r_n_s AS n JOIN lineitem AS l ON n.s_suppkey = l.l_suppkey
WHERE n.r_name = 'ASIA'
GROUP BY n.n_name;
