"""In a worker: one micro-batch, from dispatch to results."""
