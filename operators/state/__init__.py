"""What makes a slot durable: chunks and manifests in Spark's state store, and their warm copy on local disk."""
