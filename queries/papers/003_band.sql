-- 003 section 6.1: BiStream's synthetic band join, a self-join.
CREATE STREAM lineitem (orderkey BIGINT, shipmode STRING, shipinstruct STRING, quantity INT)
  USING json OPTIONS (path 'data/lineitem');
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT l1.orderkey, l2.orderkey AS other, l1.quantity FROM lineitem l1, lineitem l2
WHERE ABS(l1.orderkey - l2.orderkey) <= 1
  AND (l1.shipmode = 'TRUCK' AND l2.shipinstruct = 'NONE')
  AND l1.quantity > 48;
