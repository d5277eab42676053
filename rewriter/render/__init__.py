"""Back to SQL: the rest of the query over the outputs of the join nodes."""
