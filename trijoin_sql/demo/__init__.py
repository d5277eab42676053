"""``trijoin-sql demo``: streams of real departures, a cyclic and a chain join, checked against Spark batch.

In the order of the data: `flights` makes the files, `queries` holds the SQL, this module runs it through
`TriJoinSession.sql`, and `reference` runs the same SQL in Spark batch.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.syntax import Syntax
from rich.table import Table

from ..jobs.progress import counted
from ..running.stopping import StopRequest, signals
from ..spark.config import configure, submitted_settings
from ..spark.quiet import quiet_jvm, quiet_python
from .flights import DEPARTURES, WEATHER, Year, read_year, write_streams
from .queries import QUERIES, DemoQuery
from .reference import Bag, bag_of, batch_result, slice_count
from .watch import heed, watch

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ..session import TriJoinSession

#: Spark settings of the demo, unless the user has set them.
SETTINGS = {
    # Four attempts a task: with one, a Python worker that dies takes the query with it.
    "spark.master": os.environ.get("MASTER", "local[*,4]"),
    "spark.driver.memory": "2g",
    # In two minutes the JVM's second compiler does not pay off: it takes half of the processor time. Without
    # it there are 48 MiB for compiled code, which the demo fills; then the JVM warns, and runs without a compiler.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
#: Weeks that arrive in one micro-batch, and the rows of the displayed table.
WEEKS_A_BATCH, SHOWN = 3, 5


def run_demo(folder: Path, *, out: Console, err: Console, verbose: bool = False) -> bool:
    """Run the demo in an empty folder; return whether both queries gave the same rows as Spark batch.

    Results go to ``out``, progress to ``err``, and Spark's log too if it is wanted.

    Raises
    ------
    ModuleNotFoundError
        The package with the data is not installed.
    """
    from ..session import TriJoinSession

    began = time.monotonic()
    err.print("reading a year of departures and starting Spark")
    year = read_year()
    write_streams(year, folder / "streams")
    agree, request = True, StopRequest()
    # Twice: Spark sets a handler for SIGINT of its own when it starts.
    with signals(request), _spark(err if verbose else None) as spark, signals(request):
        session = TriJoinSession.create(spark)
        for query in QUERIES:
            agree &= run_query(session, query, year, folder, out=out, err=err, request=request)
    out.print(
        f"{'All counts agree' if agree else 'THE COUNTS DO NOT AGREE'} ({time.monotonic() - began:.0f} s in all)."
    )
    return agree


@contextmanager
def _spark(log: Console | None) -> Iterator[SparkSession]:
    """Start Spark, quietly unless its log is shown; a user's own settings win."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("trijoin-sql demo")
    submitted = submitted_settings()
    for key, value in SETTINGS.items():
        if key not in submitted:
            builder.config(key, value)
    show = None if log is None else lambda line: log.print(line, markup=False, soft_wrap=True)
    with quiet_python() if log is None else nullcontext(), quiet_jvm(show):
        spark = configure(builder).getOrCreate()
        try:
            yield spark
        finally:
            for query in spark.streams.active:
                query.stop()
            spark.stop()


def run_query(
    session: TriJoinSession,
    query: DemoQuery,
    year: Year,
    folder: Path,
    *,
    out: Console,
    err: Console,
    request: StopRequest,
) -> bool:
    """Run one query on streams and in Spark batch; return whether both give the same rows.

    The parameters are those of `run_demo`; ``streams`` in `folder` holds the files, `request` can ask for the end.
    """
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
    began = time.monotonic()
    tally = watch(running, f"{query.name} query", err, batches=-(-year.weeks // WEEKS_A_BATCH), request=request)
    took = time.monotonic() - began
    found = session.spark.read.schema(frame.schema).parquet(str(results))
    _show(found, out)
    streamed = bag_of(found)
    expected = _batch(session.spark, query, year, err, request)
    out.print(
        f"{streamed.rows:,} results from {tally.input_rows:,} rows that the streams read, in {took:.1f} s.\n"
        f"{expected.rows:,} results in Spark batch, in {time.monotonic() - began - took:.1f} s: "
        + ("the same rows.\n" if streamed == expected else "NOT THE SAME ROWS.\n")
    )
    return streamed == expected


def _stream(spark: SparkSession, path: Path) -> DataFrame:
    """Return a folder's files as a stream, some weeks of all its airports at a time."""
    airports = 3 if path.name == "*" else 1
    schema = _ddl(WEATHER if path.name == "weather" else DEPARTURES)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", WEEKS_A_BATCH * airports)
    return reader.parquet(str(path)).withWatermark("ts", "1 hour")


def _ddl(schema: pa.Schema) -> str:
    names = {"int64": "BIGINT", "double": "DOUBLE", "string": "STRING", "timestamp[us, tz=UTC]": "TIMESTAMP"}
    return ", ".join(f"{field.name} {names[str(field.type)]}" for field in schema)


def _batch(spark: SparkSession, query: DemoQuery, year: Year, err: Console, request: StopRequest) -> Bag:
    """Run the query in Spark batch, with a progress bar."""
    title = "the same SQL in Spark batch, slice by slice of the year"
    columns = (TextColumn("  {task.description}"), BarColumn(bar_width=20), MofNCompleteColumn(), TimeElapsedColumn())
    if not err.is_terminal:
        err.print(title)
    with Progress(*columns, console=err, disable=not err.is_terminal) as bar:
        task = bar.add_task(title, total=slice_count(query, year))
        threads = spark.sparkContext.defaultParallelism

        def done() -> None:
            heed(request)
            bar.advance(task)

        return batch_result(spark, query, year, threads=threads, done=done)


def _show(found: DataFrame, out: Console) -> None:
    table = Table(
        *found.columns, title=f"The first {SHOWN} results, times in UTC", title_justify="left", box=SIMPLE_HEAD
    )
    first = found.orderBy(*found.columns).limit(SHOWN)
    times = {name: f"DATE_FORMAT({name}, 'MMM dd HH:mm')" for name, kind in first.dtypes if kind == "timestamp"}
    for row in first.selectExpr(*(f"STRING({times.get(name, name)})" for name in first.columns)).collect():
        table.add_row(*row)
    out.print(table)
