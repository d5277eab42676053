-- A theta outer join without a bound in event time: it would never know that a row has no partner.
CREATE STREAM r (a INT) USING rate;
CREATE STREAM s (a INT) USING rate;
SELECT r.a, s.a AS sa FROM r LEFT JOIN s ON r.a < s.a
