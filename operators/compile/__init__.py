"""On the driver: a join node becomes a DataFrame. Workers load none of it."""
