"""What a running streaming query tells: batch, rows a second, results, watermark."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

#: Name of the metric that `counted` observes.
RESULTS = "trijoin_results"
#: Seconds between two looks at a query, and between two lines where nothing can be redrawn.
POLL, LINE = 0.25, 5.0


@dataclass(slots=True)
class Tally:
    """What a query has done so far.

    Parameters
    ----------
    batches
        Micro-batches with input.
    rows
        Input rows, over all sources.
    results
        Rows put out, None if the query was not started from `counted`.
    watermark
        As Spark writes it, empty as long as there is none.
    seconds
        Time since `follow` began.
    rate
        Input rows a second of the last micro-batch that had input.
    """

    batches: int = 0
    rows: int = 0
    results: int | None = None
    watermark: str = ""
    seconds: float = 0.0
    rate: float = 0.0
    _seen: int = field(default=-1, repr=False)

    def look(self, query: StreamingQuery) -> None:
        """Take in what the query reported since the last look."""
        last: Any = query.lastProgress
        if last is None or last.batchId == self._seen:
            return
        # Fetching all reports takes a while, and is only needed where several came at once.
        for progress in [last] if last.batchId == self._seen + 1 else query.recentProgress:
            self.add(progress)

    def add(self, progress: Any) -> None:
        """Take in one of Spark's progress reports, unless it was taken before."""
        if progress.batchId <= self._seen or not progress.batchDuration:
            return
        self._seen = progress.batchId
        observed = (progress.observedMetrics or {}).get(RESULTS)
        if observed is not None:
            self.results = (self.results or 0) + observed[0]
        self.watermark = (progress.eventTime or {}).get("watermark", self.watermark)
        if progress.numInputRows:
            self.batches += 1
            self.rows += progress.numInputRows
            self.rate = progress.numInputRows / progress.batchDuration * 1000

    def __str__(self) -> str:
        results = "" if self.results is None else f" · {self.results:,} results"
        # Before the first event time Spark reports the epoch.
        watermark = f" · watermark {self.watermark[:16].replace('T', ' ')}" if self.watermark > "1971" else ""
        return f"{self.rate:>9,.0f} rows/s{results}{watermark}"


def counted(frame: DataFrame) -> DataFrame:
    """Return the frame with its rows counted, so that a query over it shows how many results there are."""
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    return frame.observe(RESULTS, F.count(F.lit(1)).alias("rows"))


def follow(query: StreamingQuery, title: str, console: Console, *, batches: int | None = None) -> Tally:
    """Show what a query does until it ends.

    Parameters
    ----------
    query
        A running query that ends by itself, or is stopped.
    title
        What to call it.
    console
        Where to: a live line on a terminal, else a line every few seconds. A quiet console shows nothing.
    batches
        How many micro-batches are expected, if known.

    Returns
    -------
    Tally
        The sum of what the query did.

    Raises
    ------
    pyspark.errors.StreamingQueryException
        If the query failed.
    """
    tally, start, told = Tally(), time.monotonic(), time.monotonic()
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        *((BarColumn(bar_width=20),) if batches else ()),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[tally]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=batches, tally=tally)
        ended = False
        while not ended:
            ended = bool(query.awaitTermination(cast("int", POLL)))  # it takes fractions
            tally.look(query)
            tally.seconds = time.monotonic() - start
            bar.update(task, completed=tally.batches)
            if not console.is_terminal and (ended or time.monotonic() - told >= LINE):
                told = time.monotonic()
                of = f" of {batches}" if batches else ""
                console.print(f"{title}: batch {tally.batches}{of} · {str(tally).strip()}", soft_wrap=True)
    return tally
