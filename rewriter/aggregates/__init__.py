"""GROUP BY and aggregates as two steps (003 section 3.4.2)."""
