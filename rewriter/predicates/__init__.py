"""What sort of conjunct is it, and what does it imply: differences, bands, times."""
