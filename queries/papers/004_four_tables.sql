-- 004 section 4.1: the four-table join of UMJoin's evaluation, a star with one key common to all.
CREATE STREAM store_returns (sr_addr_sk BIGINT, sr_return_amt DECIMAL(7,2))
  USING json OPTIONS (path 'data/store_returns');
CREATE STREAM customer (c_customer_sk BIGINT, c_current_addr_sk BIGINT, c_last_name STRING)
  USING json OPTIONS (path 'data/customer');
CREATE STREAM web_returns (wr_refunded_addr_sk BIGINT, wr_return_amt DECIMAL(7,2))
  USING json OPTIONS (path 'data/web_returns');
CREATE STREAM catalog_returns (cr_refunded_addr_sk BIGINT, cr_return_amount DECIMAL(7,2))
  USING json OPTIONS (path 'data/catalog_returns');
CREATE SINK found USING console OPTIONS (truncate false);

INSERT INTO found
SELECT *
FROM store_returns sr, customer cu, web_returns wr, catalog_returns cr
WHERE cu.c_current_addr_sk = cr.cr_refunded_addr_sk
  AND cu.c_current_addr_sk = sr.sr_addr_sk
  AND cu.c_current_addr_sk = wr.wr_refunded_addr_sk;
