"""Spark's logical plans of classic sessions, as Python sees them by py4j."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def plan_of(frame: DataFrame) -> Any:
    """Return the analysed plan of a DataFrame."""
    return frame._jdf.queryExecution().analyzed()


def calls_python(spark: SparkSession, plan: Any) -> bool:
    """Return whether a plan calls a function in Python: Spark computes it for all rows, whatever IF is around it."""
    session: Any = spark
    return bool(plan.containsPattern(session._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()))


def is_lasting(spark: SparkSession, tree: Any) -> bool:
    """Return whether a plan or an expression has the same values whenever it is computed: it draws none, and reads no
    clock, user or current catalog.
    """
    session: Any = spark
    current = session._jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    return bool(tree.deterministic() and not tree.containsPattern(current))


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """Return the DataFrame of a plan."""
    from pyspark.sql import DataFrame  # what only looks at settings loads this module too

    session: Any = spark
    classic = session._jvm.org.apache.spark.sql.classic
    return DataFrame(classic.Dataset.ofRows(session._jsparkSession, plan), spark)


def items(seq: Any) -> list[Any]:
    """Return what is in a sequence of Scala's."""
    return [seq.apply(number) for number in range(seq.size())]


def sequence(spark: SparkSession, listed: list[Any]) -> Any:
    """Return a list as a sequence of Scala's."""
    session: Any = spark
    return session._jvm.org.apache.spark.api.python.PythonUtils.toSeq(listed)


class Step(NamedTuple):
    """A node of a plan, its name (`SubqueryAlias`), and the steps from the root to it."""

    node: Any
    name: str
    above: tuple[Step, ...] = ()


def walk(plan: Any) -> Iterator[Step]:
    """Yield a node and all nodes below it, parents first, in the order in which Spark prints them.

    A node takes three calls of the JVM and one more for each node right below it, so nothing is asked about
    expressions; only where the plan has subqueries, each node is asked for its own.
    """
    nested = plan.subqueriesAll().size() > 0

    def below(node: Any, above: tuple[Step, ...]) -> Iterator[Step]:
        step = Step(node, str(node.nodeName()), above)
        yield step
        for one in (*(items(node.subqueries()) if nested else ()), *items(node.children())):
            yield from below(one, (*above, step))

    return below(plan, ())


def is_query(spark: SparkSession, parsed: Any) -> bool:
    """Return whether a parsed statement only reads: it is no command, and has none in it."""
    session: Any = spark
    logical, class_of = "org.apache.spark.sql.catalyst.plans.logical", session._jvm.java.lang.Class.forName
    commands = [class_of(f"{logical}.{name}") for name in ("Command", "ParsedStatement")]
    return not any(one.isInstance(step.node) for step in walk(parsed) for one in commands)


def over(spark: SparkSession, node: Any, children: list[Any]) -> Any:
    """Return a node, of a plan or an expression, over other children: itself where these are its own."""
    if all(new is old or new.fastEquals(old) for new, old in zip(children, items(node.children()), strict=True)):
        return node
    return node.withNewChildren(sequence(spark, children))


def joins_streams(plan: Any) -> bool:
    """Return whether a node is a join of two streams."""
    return bool(plan.nodeName() == "Join" and all(side.isStreaming() for side in items(plan.children())))


def conjuncts(condition: Any) -> list[Any]:
    """Return the conditions that an expression joins by AND."""
    if condition.nodeName() == "And":
        return [one for side in items(condition.children()) for one in conjuncts(side)]
    return [condition]
