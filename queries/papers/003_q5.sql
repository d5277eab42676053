-- 003 section 6.1: the join of TPC-H Q5 in which BiStream is evaluated (lineitem with the rest already joined).
CREATE STREAM lineitem (l_orderkey BIGINT, l_suppkey BIGINT, l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2))
  USING rate;
CREATE STREAM r_n_s (s_suppkey BIGINT, n_nationkey INT, n_name STRING, r_name STRING) USING rate;
SELECT n.n_name, SUM(l.l_extendedprice * (1 - l.l_discount)) AS revenue
FROM r_n_s AS n JOIN lineitem AS l ON n.s_suppkey = l.l_suppkey
WHERE n.r_name = 'ASIA'
GROUP BY n.n_name
