-- The join that Spark refuses on streams: no equality at all.
CREATE STREAM bids (id BIGINT, price DECIMAL(10,2)) USING rate;
CREATE STREAM asks (id BIGINT, price DECIMAL(10,2)) USING rate;
SELECT b.id, a.id AS ask FROM bids AS b JOIN asks AS a ON b.price >= a.price
