"""Event time: how long rows are kept, and what of it passes to what stands above a join."""
