"""A micro-batch is computed to its end, whatever its sink asks for.

State is saved by the task that computes the last row of a partition. A sink that does not ask for all rows leaves state
unsaved: a function of micro-batches that calls ``show()``, and, when a micro-batch is repeated after a crash, every
sink that has it and skips it by its number (Spark's file sink, Delta's, many functions of ``foreachBatch``). Where
state is named by the attempt that wrote it (checkpoint format 2, see `config`), Spark then fails with ``assertion
failed: CheckpointInfo length: 0``, in the latter case at every start. So a sink of ours stands before the query's own.
It passes the rows on, and computes afterwards what has not been computed. In checkpoint format 1, which we use with
Spark 4.0, an operator tells which partitions it has saved by its files alone, those of Spark's own joins excepted.
"""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import SparkSession

from .flags import settings_of
from .janino import compiled, instance
from .liberties import WHOLE_BATCHES, taken
from .versions import streaming_class

_log = logging.getLogger("trijoin_sql")

_SINK = "org.apache.spark.sql.execution.streaming.Sink"
_FUNCTION = "org.apache.spark.sql.execution.streaming.sources.ForeachBatchSink"
_CLASS = "TriJoinWholeBatches"
#: What it imports of Spark's operators with state.
_STATEFUL = ("StateStoreWriter", "StatefulOpStateStoreCheckpointInfo", "StatefulOperatorStateInfo")

#: Spark knows a sink that is a function by its class, in one check of its own: so ours is of that class there.
_KINDS = {
    _SINK: (f"implements {_SINK}", ""),
    _FUNCTION: (f"extends {_FUNCTION}", "super(null, null);"),
}

_SOURCE = """
import org.apache.spark.sql.execution.SparkPlan;
import {StateStoreWriter};
import {StatefulOpStateStoreCheckpointInfo};
import {StatefulOperatorStateInfo};
import {StatefulOperatorStateInfo}$;
import org.apache.hadoop.fs.Path;

public final class {name} {extends} {{
  private final {sink} sink;

  public {name}({sink} sink) {{
    {construct}
    this.sink = sink;
  }}

  public void addBatch(long batch, org.apache.spark.sql.Dataset frame) {{
    sink.addBatch(batch, frame);
    if (!isWhole(frame.queryExecution().executedPlan())) frame.queryExecution().toRdd().count();
  }}

  public boolean isWhole(SparkPlan plan) {{
    return isSaved(plan, StatefulOperatorStateInfo$.MODULE$.enableStateStoreCheckpointIds(plan.conf()));
  }}

  private static boolean isSaved(SparkPlan plan, boolean named) {{
    if (plan instanceof StateStoreWriter && !named) {{
      if (!hasFiles(plan, ((StateStoreWriter) plan).getStateInfo())) return false;
    }} else if (plan instanceof StateStoreWriter) {{
      StateStoreWriter writer = (StateStoreWriter) plan;
      java.util.Set partitions = new java.util.HashSet();
      java.util.Iterator saved = writer.checkpointInfoAccumulator().value().iterator();
      while (saved.hasNext()) {{
        partitions.add(Integer.valueOf(((StatefulOpStateStoreCheckpointInfo) saved.next()).partitionId()));
      }}
      if (partitions.size() < writer.getStateInfo().numPartitions()) return false;
    }}
    scala.collection.Iterator below = plan.children().iterator();
    while (below.hasNext()) {{
      if (!isSaved((SparkPlan) below.next(), named)) return false;
    }}
    return true;
  }}

  private static boolean hasFiles(SparkPlan plan, StatefulOperatorStateInfo info) {{
    if (plan.nodeName().contains("Join")) return true;
    Path folder = new Path(info.checkpointLocation(), String.valueOf(info.operatorId()));
    int partitions = plan.outputPartitioning().numPartitions() == 1 ? 1 : info.numPartitions();
    for (int partition = 0; partition < partitions; partition++) {{
      String file = folder + "/" + partition + "/" + (info.storeVersion() + 1);
      boolean saved = exists(plan, file + ".changelog") || exists(plan, file + ".zip") || exists(plan, file + ".delta");
      if (!saved) return false;
    }}
    return true;
  }}

  private static boolean exists(SparkPlan plan, String file) {{
    try {{
      Path path = new Path(file);
      return path.getFileSystem(plan.session().sessionState().newHadoopConf()).exists(path);
    }} catch (java.io.IOException error) {{
      throw new java.io.UncheckedIOException(error);
    }}
  }}

  public String name() {{ return sink.name(); }}
  public org.apache.spark.sql.types.StructType schema() {{ return sink.schema(); }}
  public java.util.Set capabilities() {{ return sink.capabilities(); }}
  public String toString() {{ return sink.toString(); }}
}}
"""


def is_whole(execution: Any) -> bool:
    """Tell whether the running micro-batch of a query has been computed to its end, as far as can be known."""
    from py4j.protocol import Py4JError

    try:
        return bool(execution.sink().isWhole(execution.lastExecution().executedPlan()))
    except Py4JError:  # no sink of ours stands there
        return True


def compute_whole_batches(spark: SparkSession, execution: Any) -> None:
    """Put a sink before that of a query, unless it is one that always asks for all rows.

    Parameters
    ----------
    spark
        A classic session.
    execution
        Spark's execution of the query, before its first micro-batch.
    """
    if not taken(WHOLE_BATCHES, settings_of(spark)):
        return
    from py4j.java_gateway import is_instance_of
    from py4j.protocol import Py4JError

    gateway: Any = spark.sparkContext._gateway
    sink = execution.sink()
    try:
        if not is_instance_of(gateway, sink, _SINK):  # Spark itself writes rows into others, all of them
            return
        kind = _FUNCTION if is_instance_of(gateway, sink, _FUNCTION) else _SINK
        extends, construct = _KINDS[kind]
        names = {name: streaming_class(f"operators.stateful.{name}", spark.version) for name in _STATEFUL}
        source = _SOURCE.format(name=_CLASS, extends=extends, construct=construct, sink=_SINK, **names)
        ours = instance(gateway, compiled(gateway.jvm, _CLASS, source, _SINK), sink)
        owner = execution.getClass()
        while owner.getSimpleName() != "StreamExecution":
            owner = owner.getSuperclass()
        field = owner.getDeclaredField("sink")
        field.setAccessible(True)
        field.set(execution, ours)
    except (Py4JError, TypeError, AttributeError) as error:  # the latter two are py4j's for a missing class or null
        _log.warning("a sink that does not read all rows of a micro-batch will end its query: %s", error)
