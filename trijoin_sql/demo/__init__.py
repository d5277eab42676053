"""``trijoin-sql demo``: streams of real departures, a cyclic and a chain join, checked against Spark batch.

In the order of the data: `flights` makes the files, `queries` holds the SQL, this module runs it through
`TriJoinSession.sql`, and `reference` runs the same SQL in Spark batch.
"""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table

from ..local_session import local_session
from ..progress import Tally, counted, follow
from .flights import DEPARTURES, WEATHER, Year, read_year, write_streams
from .queries import QUERIES, DemoQuery
from .reference import Bag, bag_of, batch_result, slice_count

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ..session import TriJoinSession

#: Weeks that arrive in one micro-batch, and the rows of the table that is shown.
WEEKS_A_BATCH, SHOWN = 2, 5


def run_demo(folder: Path, *, out: Console, err: Console, verbose: bool = False) -> bool:
    """Run the demo.

    Parameters
    ----------
    folder
        An empty folder for the streams' files, checkpoints and results.
    out, err
        Where results go, and where progress goes.
    verbose
        Whether Spark's log goes to stderr, too, instead of to ``spark.log`` in `folder`.

    Returns
    -------
    bool
        True if both queries gave the same rows as Spark batch.

    Raises
    ------
    ModuleNotFoundError
        If the package with the data is not installed.
    """
    from ..session import TriJoinSession

    began = time.monotonic()
    err.print("reading a year of departures and starting Spark")
    year = read_year()
    write_streams(year, folder / "streams")
    agree = True
    with local_session("trijoin-sql demo", log=None if verbose else folder / "spark.log") as spark:
        session = TriJoinSession.create(spark)
        for query in QUERIES:
            agree &= _run_query(session, query, year, folder, out, err)
    out.print(
        f"{'All counts agree' if agree else 'THE COUNTS DO NOT AGREE'} ({time.monotonic() - began:.0f} s in all)."
    )
    return agree


def _run_query(session: TriJoinSession, query: DemoQuery, year: Year, folder: Path, out: Console, err: Console) -> bool:
    out.print(f"[bold]{query.question}[/]", soft_wrap=True)
    out.print(Syntax(query.sql, "sql", background_color="default") if out.is_terminal else query.sql, soft_wrap=True)
    for view, path in query.views.items():
        _stream(session.spark, folder / "streams" / path).createOrReplaceTempView(view)
    results = folder / "results" / query.name
    frame = session.sql(query.sql)
    running = (
        counted(frame)
        .writeStream.format("parquet")
        .option("path", str(results))
        .option("checkpointLocation", str(folder / "checkpoints" / query.name))
        .trigger(availableNow=True)
        .start()
    )
    tally = follow(running, f"{query.name} query", err, batches=-(-year.weeks // WEEKS_A_BATCH))
    found = session.spark.read.schema(frame.schema).parquet(str(results))
    _show(found, out)
    streamed = bag_of(found)
    expected = _batch(session.spark, query, year, err)
    return _compare(streamed, expected, tally, out)


def _stream(spark: SparkSession, path: Path) -> DataFrame:
    """Return a folder's files as a stream, some weeks of all airports in it at a time."""
    airports = 3 if path.name == "*" else 1
    schema = _ddl(WEATHER if path.name == "weather" else DEPARTURES)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", WEEKS_A_BATCH * airports)
    return reader.parquet(str(path)).withWatermark("ts", "1 hour")


def _ddl(schema: pa.Schema) -> str:
    names = {"int64": "BIGINT", "double": "DOUBLE", "string": "STRING", "timestamp[us, tz=UTC]": "TIMESTAMP"}
    return ", ".join(f"{field.name} {names[str(field.type)]}" for field in schema)


def _batch(spark: SparkSession, query: DemoQuery, year: Year, err: Console) -> tuple[Bag, float]:
    """Run the query in Spark batch; return its result and the seconds that it took."""
    start = time.monotonic()
    title = "the same SQL in Spark batch, slice by slice of the year"
    columns = (TextColumn("  {task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn())
    if not err.is_terminal:
        err.print(title)
    with Progress(*columns, console=err, disable=not err.is_terminal) as bar:
        task = bar.add_task(title, total=slice_count(query, year))
        expected = batch_result(
            spark, query, year, threads=spark.sparkContext.defaultParallelism, done=lambda: bar.advance(task)
        )
    return expected, time.monotonic() - start


def _show(found: DataFrame, out: Console) -> None:
    table = Table(
        *found.columns, title=f"The first {SHOWN} results, times in UTC", title_justify="left", box=SIMPLE_HEAD
    )
    for row in found.orderBy(*found.columns).limit(SHOWN).collect():
        table.add_row(*(f"{value:%b %d %H:%M}" if isinstance(value, datetime) else str(value) for value in row))
    out.print(table)


def _compare(streamed: Bag, expected: tuple[Bag, float], tally: Tally, out: Console) -> bool:
    batch, seconds = expected
    same = streamed == batch
    out.print(
        f"{streamed.rows:,} results from {tally.rows:,} rows read by the streams, in {tally.seconds:.1f} s.\n"
        f"{batch.rows:,} results in Spark batch, in {seconds:.1f} s: "
        + ("the same rows." if same else "NOT THE SAME ROWS.")
    )
    out.print()
    return same
