"""Event time: how long rows are kept, and which event times pass through a join."""
