"""Name resolution by Spark's rules: the relation of each column."""
