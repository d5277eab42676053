"""Tables that a job's query reads beside its streams, as far as their files show without reading them."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from ..operators.compile.logical_plans import plan_of, walk

_FROM_WAREHOUSE = (
    "; a relative path of CREATE TABLE begins in Spark's warehouse: write the whole path, or CREATE TEMPORARY VIEW "
    "{} ... USING, whose path begins where the command runs"
)


def tables_without_files(frame: DataFrame) -> Iterator[str]:
    """Yield a sentence for each table of a query that has no rows because it has no files: Spark says nothing."""
    for step in walk(plan_of(frame)):
        relation = step.node.relation() if step.name == "LogicalRelation" else None
        if relation is None or relation.getClass().getSimpleName() != "HadoopFsRelation":
            continue
        places, table = relation.location().rootPaths(), step.node.catalogTable()
        if relation.location().sizeInBytes() or places.isEmpty():
            continue
        place, home = str(places.head().toString()), str(frame.sparkSession.conf.get("spark.sql.warehouse.dir"))
        if not table.isDefined():  # a view of files, or a path in FROM
            yield f"nothing is read from {place}: no file with rows is there"
            continue
        name, has_place = table.get().identifier().table(), table.get().tableType().name() == "EXTERNAL"
        hint = _FROM_WAREHOUSE.format(name) if has_place and place.startswith(home) else ""
        yield f"the table {name} has no rows: no file with any is at {place}{hint}"
