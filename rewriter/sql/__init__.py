"""Text to tree and back: Spark's SQL as a sqlglot dialect, hints, functions, types, what we ask about tables."""
