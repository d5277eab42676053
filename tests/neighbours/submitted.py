"""What a user gives to ``spark-submit``: a join of three streams, its settings from `configure`."""

import sys

from pyspark.sql import SparkSession

import trijoin_sql

spark = trijoin_sql.configure(SparkSession.builder.appName("submitted")).getOrCreate()
for name in ("r", "s", "t"):
    stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).load()
    stream.withWatermark("timestamp", "1 second").createOrReplaceTempView(name)
found = trijoin_sql.TriJoinSession.create(spark).sql(
    "SELECT r.value AS r, s.value AS s, t.value AS t FROM r JOIN s ON ABS(r.value - s.value) <= 1 "
    "JOIN t ON s.value < t.value AND t.value < r.value + 3 WITHIN 10 SECONDS"
)
query = found.writeStream.format("parquet").option("checkpointLocation", sys.argv[1] + "/state")
query.trigger(availableNow=True).start(sys.argv[1] + "/found").awaitTermination()
print("found", spark.read.parquet(sys.argv[1] + "/found").count(), "on", spark.sparkContext.master)
