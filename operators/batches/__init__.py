"""Arrow batches: to bytes and back, and cut by what their rows weigh."""
