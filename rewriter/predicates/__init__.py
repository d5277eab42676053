"""The kind of each conjunct, and what it implies: differences, bands, times."""
