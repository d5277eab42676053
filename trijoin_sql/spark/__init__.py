"""What we ask of Spark, and change in it."""
