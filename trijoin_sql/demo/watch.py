"""Shows a query that ends by itself: a progress bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ..jobs.progress import LINE, Tally, short_time
from ..running.stopping import StopRequest

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

#: Seconds between two checks of a query.
POLL = 0.25


def heed(request: StopRequest) -> None:
    """Raise KeyboardInterrupt if a stop was requested: here, not in the middle of a call to the JVM."""
    if request.count:
        raise KeyboardInterrupt


def watch(query: StreamingQuery, title: str, console: Console, *, batches: int, request: StopRequest) -> Tally:
    """Show the progress of a query over a frame that went through `counted`, until it ends; return its totals.

    Raises
    ------
    pyspark.errors.StreamingQueryException
        The query failed.
    KeyboardInterrupt
        A stop was requested; the query keeps running.
    """
    tally, told, ended = Tally(title), time.monotonic(), False
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[tally]}"),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=batches, tally="")
        while not ended:
            ended = bool(query.awaitTermination(cast("int", POLL)))  # it takes fractions, whatever its type says
            heed(request)
            tally.look(query, {})
            bar.update(task, completed=tally.batches, tally=_shown(tally))
            if not console.is_terminal and tally.batches and (ended or time.monotonic() - told >= LINE):
                told = time.monotonic()
                console.print(f"{title}: batch {tally.batches} of {batches} · {_shown(tally)}", soft_wrap=True)
    return tally


def _shown(tally: Tally) -> str:
    watermark = f" · watermark {short_time(tally.watermark)[:16]}" if tally.watermark else ""
    return f"{tally.rate:,.0f} rows/s · {tally.output_rows:,} rows out{watermark}"
