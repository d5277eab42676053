-- Five streams with one key: every pair is equal by transitivity, and the filter on one is a filter on all.
CREATE STREAM a (k BIGINT, v INT) USING rate;
CREATE STREAM b (k BIGINT, v INT) USING rate;
CREATE STREAM c (k BIGINT, v INT) USING rate;
CREATE STREAM d (k BIGINT, v INT) USING rate;
CREATE STREAM e (k BIGINT, v INT) USING rate;
SELECT a.k, a.v + b.v + c.v + d.v + e.v AS total
FROM a JOIN b USING (k) JOIN c USING (k) JOIN d USING (k) JOIN e USING (k)
WHERE a.k > 100
