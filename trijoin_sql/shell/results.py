"""Rows for people: as a table that stays, as one that grows while a query runs, or as JSON lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ..jobs.progress import Tally, counted, input_names
from ..jobs.sinks import as_json
from ..running.stopping import StopRequest, failure, stop

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from ..jobs.statements import CreateStream

#: Seconds between two looks at a query.
POLL = 0.1
#: Rows of a task that a terminal may show; all others are only counted.
KEPT = 1000
#: Columns up to this width are never cut, whatever stands beside them.
_SHORT = 12
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")

Rows = Sequence[Sequence[str | None]]


def texts(frame: DataFrame) -> DataFrame:
    """Return a frame's values as Spark writes them; columns may have equal names."""
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    columns = []
    for number, one in enumerate(frame.schema):
        column = F.col(f"c{number}")
        match one.dataType.typeName():
            case "binary":
                column = F.concat(F.lit("X'"), F.hex(column), F.lit("'"))
            case "variant":
                column = F.to_json(column)
            case _:
                column = column.cast("string")
        columns.append(column.alias(f"c{number}"))
    return frame.toDF(*(f"c{number}" for number in range(len(columns)))).select(*columns)


def table(schema: StructType, rows: Rows, *, width: int | None) -> Table:
    """Return rows as a table; where it has a ``width``, cells that do not fit are cut."""
    found = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for number, one in enumerate(schema):
        right = one.dataType.typeName().startswith(_NUMBERS)
        justify: Any = "right" if right else "left"
        overflow: Any = "ellipsis" if width else "fold"
        longest = max((len(row[number] or "NULL") for row in rows), default=0)
        heading, least = Text(_printable(one.name)), min(max(longest, len(one.name)), _SHORT)
        found.add_column(heading, justify=justify, no_wrap=True, overflow=overflow, min_width=least)
    for row in rows:
        found.add_row(*(Text("NULL", style="dim") if cell is None else Text(_printable(cell)) for cell in row))
    return found


def _printable(text: str) -> str:
    """Return a text on one line; control characters would move the cursor of the terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def first_rows(limit: int) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """Return a function that takes all rows of a task and returns the first ones.

    ``limit`` would end a task early, whose state would then not be stored. All rows of a burst would fill the driver.
    """

    def keep(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        left = limit
        for batch in batches:
            if left:
                yield batch.slice(0, left)
                left -= min(left, batch.num_rows)

    return keep


@dataclass(slots=True)
class Growing:
    """The results of a streaming query on a terminal, as far as they fit.

    Parameters
    ----------
    console
        The terminal.
    schema
        Their columns.
    replaces
        Whether each micro-batch brings all rows anew (mode complete).
    """

    console: Console
    schema: StructType
    replaces: bool
    tally: Tally
    request: StopRequest
    rows: list[tuple[str | None, ...]] = field(default_factory=list)
    over: bool = False

    def take(self, frame: DataFrame, _batch: int) -> None:
        """Take a micro-batch."""
        shown = texts(frame)
        found = [tuple(row) for row in shown.mapInArrow(first_rows(KEPT), shown.schema).collect()]
        self.rows = found if self.replaces else [*self.rows, *found][-KEPT:]

    def __rich__(self) -> Group:
        room = max(self.console.height - 6, 3)
        rows = self.rows[:room] if self.replaces else self.rows[-room:]
        return Group(table(self.schema, rows, width=self.console.width), Text(self._status(len(rows)), style="dim"))

    def _status(self, shown: int) -> str:
        """Return what is going on, in one line."""
        tally = self.tally
        many = len(self.rows) if self.replaces else max(tally.output_rows, len(self.rows))
        parts = [f"{many:,} {'row' if many == 1 else 'rows'}"]
        if shown < many:
            parts[0] += f", the {'first' if self.replaces else 'last'} {shown}"
        if tally.batch >= 0:
            parts += [f"batch {tally.batch:,}", f"{tally.input_rows:,} rows in, {tally.shown_rate} a second"]
        if tally.watermark:
            parts.append(f"watermark {tally.watermark[:19].replace('T', ' ')}")
        if tally.idle:
            parts.append(f"idle: {', '.join(tally.idle)}")
        if self.over:
            return " · ".join(parts)
        stopping = "stopping after the running batch; Ctrl-C again stops at once"
        return " · ".join([*parts, stopping if self.request.count else "Ctrl-C ends the query"])


def print_rows(frame: DataFrame, out: Console, *, lines: bool, even_none: bool = True) -> None:
    """Print all rows of a frame: as a table as wide as it has to be, or as a JSON object each."""
    if lines:
        for row in as_json(frame).toLocalIterator():
            out.file.write(f"{row[0]}\n")
    elif (rows := [tuple(row) for row in texts(frame).collect()]) or even_none:
        wide = Console(file=out.file, width=1_000_000, highlight=False, color_system=None)
        wide.print(table(frame.schema, rows, width=None))
    out.file.flush()


def printing(out: Console, *, lines: bool) -> Callable[[DataFrame, int], None]:
    """Return a function that prints the rows of each micro-batch that has some."""
    return lambda frame, _batch: print_rows(frame, out, lines=lines, even_none=False)


def follow(
    frame: DataFrame,
    mode: str,
    take: Callable[[DataFrame, int], None],
    tally: Tally,
    streams: Iterable[CreateStream],
    request: StopRequest,
    *,
    once: bool,
) -> None:
    """Run a streaming query until it ends or a stop is requested; ``take`` gets its micro-batches.

    Raises
    ------
    StreamingQueryException
        It failed.
    """
    writer = counted(frame).writeStream.outputMode(mode).foreachBatch(request.guard(take))
    query = (writer.trigger(availableNow=True) if once else writer).start()
    names = input_names(list(streams))
    try:
        while query.isActive and not request.count:
            tally.look(query, names)
            time.sleep(POLL)
    finally:
        stop(frame.sparkSession, [query], request)
    tally.look(query, names)
    if (error := failure(query)) is not None:
        raise error
