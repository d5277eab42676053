"""What we ask of Spark, and do to it."""
