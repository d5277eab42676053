"""Results on their way out of a scheme: blocks, what aggregations ask of them."""
