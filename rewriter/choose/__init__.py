"""Which scheme runs, in how many units, and why."""
