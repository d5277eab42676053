"""What rooms pass to each other: plan nodes and their parts, on the standard library (except for the join graph)."""
