"""A running query: its checkpoint, counters, units, end."""
