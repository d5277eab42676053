-- 003 section 6.1: the join of TPC-H Q7 in which BiStream is evaluated. The OR gives a filter for each side.
CREATE STREAM s_n (s_suppkey BIGINT, supp_nation STRING)
  USING json OPTIONS (path 'data/s_n');
CREATE STREAM l_o_c_n (l_suppkey BIGINT, cust_nation STRING, l_shipdate DATE, volume DECIMAL(15,2))
  USING json OPTIONS (path 'data/l_o_c_n');
CREATE SINK found USING console OPTIONS (truncate false) MODE complete;

INSERT INTO found
SELECT s.supp_nation, c.cust_nation, YEAR(c.l_shipdate) AS l_year, SUM(c.volume) AS revenue
FROM s_n AS s, l_o_c_n AS c
WHERE s.s_suppkey = c.l_suppkey
  AND ((s.supp_nation = 'FRANCE' AND c.cust_nation = 'GERMANY')
    OR (s.supp_nation = 'GERMANY' AND c.cust_nation = 'FRANCE'))
GROUP BY s.supp_nation, c.cust_nation, YEAR(c.l_shipdate);
