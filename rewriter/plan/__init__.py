"""What rooms hand over: plan nodes and their parts, the standard library alone (but for the join graph)."""
