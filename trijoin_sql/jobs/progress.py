"""Shows the progress of a job's queries: a live table on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..explain.wording import byte_size, count, milliseconds
from ..operators.task.late_rows import FURTHER, LIMITS
from ..rewriter.sql.dialect import quote
from ..running import live
from ..running.late import LateRows
from ..running.metrics import OUTPUT, BatchCounters, batch_counters, running_batch
from ..running.vanished import IDLE, Vanished, phrases
from .paths import local_path
from .statements import CreateStream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

#: Beginning of the names of the metrics that count the corrupt records of a stream.
CORRUPT = "trijoin_corrupt_"
#: Seconds between two lines if nothing can be redrawn.
LINE = 5.0
#: Seconds, at least, between two looks into a batch of a query in real time.
SECOND = 1.0
#: A terminal with this many columns shows a query on one line.
WIDE = 105
#: Spark's name of the operator of our joins: an entry in its store is a chunk of rows.
_OURS = "transformWithState"
#: Spark's names of its aggregations that keep groups.
_GROUPS = ("stateStoreSave", "sessionWindowStateStoreSave")
_CORRUPT_ARE_NULL = "what cannot be read of them is NULL (OPTIONS (mode 'FAILFAST') ends the query at the first)"
_NOTHING_CAME = "no stream has brought a row"
_HELD = " (the watermark waits for it)"


def counted(frame: DataFrame) -> DataFrame:
    """Return the frame with its rows counted, so that the query's progress has the number of rows for its sink."""
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    return frame.observe(OUTPUT, F.count(F.lit(1)).alias("rows"))


def without_corrupt(frame: DataFrame, corrupt: str, stream: str, *, keep: bool) -> DataFrame:
    """Return a stream's frame with its corrupt records counted; ``keep`` the column that has their text, or drop it."""
    from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)

    # A second column, because Spark reads no file for the texts of corrupt records alone.
    columns = [corrupt, *(name for name in frame.columns if name.lower() != corrupt.lower())][:2]
    counts = [F.count(F.col(quote(name))).alias(f"c{number}") for number, name in enumerate(columns)]
    frame = frame.observe(CORRUPT + stream, *counts)
    return frame if keep else frame.drop(corrupt)


@dataclass(frozen=True, slots=True)
class Second:
    """What a query in real time had done in a batch at a time: rows by input, counters, and latencies."""

    at: float
    batch: int
    rows: Counter[str] = field(default_factory=Counter)
    counters: dict[str, int] = field(default_factory=dict)
    latencies: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class Tally:
    """What one query has done since it was started.

    Parameters
    ----------
    sink
        The name of its sink.
    batch
        The last micro-batch, -1 before the first.
    batches, input_rows, output_rows, late_rows
        Micro-batches with input, and rows over all of them. A late row
        of a stream counts once, whatever its aliases. Output are the rows that the query gave to its sink; a join
        below may have found more results, or fewer.
    rate
        Input rows a second of the last batch with input: since the start of the batch before, or, if that took
        longer, during its own run.
    latency
        Duration of the last batch with input, in milliseconds.
    state_rows, state_bytes
        Kept rows (in a join's units, each copy of a row and its stored matches), and the size of the state stores.
    watermark
        As Spark writes it, empty if there is none.
    idle
        Inputs without rows in the last micro-batches while others had some.
    open_groups
        Kept groups of Spark's aggregations, including windows.
    appends
        Whether the sink gets a group only when it closes.
    heard
        Called with every report that was added, its rows by input, and those for the sink.
    corrupt
        Records that were not in the format of their file, by stream.
    vanished
        What joins have lost to NULLs and inputs without rows.
    late_sink
        The name of the sink that gets late rows, empty if there is none.
    running
        Rows in, and results, of the batch that runs, in real time: the totals are of batches that have ended.
    latencies
        In real time, percentiles in milliseconds, of the last second with results.
    heard_within
        Called in real time, some seconds apart: the seconds since, rows by input, results, and counters of the batch.
    """

    sink: str
    batch: int = -1
    batches: int = 0
    input_rows: int = 0
    output_rows: int = 0
    late_rows: int = 0
    rate: float = 0.0
    latency: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    watermark: str = ""
    idle: tuple[str, ...] = ()
    open_groups: int = 0
    appends: bool = False
    heard: Callable[[Any, dict[str, int], int], None] | None = field(default=None, repr=False)
    corrupt: dict[str, int] = field(default_factory=dict)
    vanished: Vanished = field(default_factory=Vanished)
    late_sink: str = ""
    running: tuple[int, int] = (0, 0)
    latencies: dict[str, float] = field(default_factory=dict)
    heard_within: Callable[[float, dict[str, int], int, BatchCounters], None] | None = field(default=None, repr=False)
    _quiet: dict[str, int] = field(default_factory=dict, repr=False)
    _waiting: int = field(default=0, repr=False)
    _kept: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)
    _begun: float | None = field(default=None, repr=False)
    _readings: dict[str, int] = field(default_factory=dict, repr=False)
    _late: LateRows = field(default_factory=LateRows, repr=False)
    _second: Second | None = field(default=None, repr=False)

    def look(self, query: StreamingQuery, names: dict[str, str]) -> list[str]:
        """Read a query's reports since the last call; return what is to be said at once.

        `names` are the names of its inputs (see `input_names`).
        """
        if live.is_live(str(query.runId)):
            self._look_within_batch(query)
        last: Any = query.lastProgress
        if last is None or last.batchId <= self.batch:
            return []
        self._readings = self._readings or readings(query)
        # Fetching all reports is slow, and needed only if several came at once.
        recent = [last] if last.batchId == self.batch + 1 else query.recentProgress
        return [said for progress in recent for said in self.add(progress, names)]

    def _look_within_batch(self, query: StreamingQuery) -> None:
        """Take what a query in real time has done by now; its batch may last for minutes."""
        now, before = time.monotonic(), self._second
        if before is not None and now - before.at < SECOND:
            return
        found = running_batch(query)
        if found is None or found.batch <= self.batch:
            return
        second = Second(now, found.batch, live.rows_in(found.slots), found.total(), live.latencies(found.slots))
        self._second = second
        if before is None or before.batch != second.batch:  # of the last one, what has ended is counted elsewhere
            before = Second(now - SECOND if before is None else before.at, second.batch)
        self.running = second.rows.total(), second.counters.get("results", 0)
        self.rate = (second.rows - before.rows).total() / (now - before.at)
        self.state_rows, self.state_bytes = (second.counters[name] for name in ("state_rows", "state_bytes"))
        self.latencies = live.percentiles(second.latencies - before.latencies) or self.latencies
        if self.heard_within is not None:
            brought = {name: rows - before.rows[name] for name, rows in second.rows.items()}
            results = self.running[1] - before.counters.get("results", 0)
            self.heard_within(now - before.at, brought, results, found)

    def add(self, progress: Any, names: dict[str, str]) -> list[str]:
        """Add one of Spark's progress reports, unless it was added before or is not about a micro-batch.

        Return what is to be said: rows that vanish.
        """
        if progress.batchId <= self.batch or "addBatch" not in (progress.durationMs or {}):
            return []
        self.batch, self.running = progress.batchId, (0, 0)
        observed = (progress.observedMetrics or {}).get(OUTPUT)
        output = int(observed[0]) if observed is not None else 0
        self.output_rows += output
        watermark = _watermark(progress) or self.watermark
        self._waiting = self._waiting + 1 if watermark == self.watermark and progress.numInputRows else 0
        self.watermark = watermark
        self.state_rows = self._state_rows(progress)
        grouped = [one.numRowsTotal for one in progress.stateOperators if one.operatorName in _GROUPS]
        self.open_groups = sum(int(rows) for rows in grouped)
        self.state_bytes = sum(_bytes(operator) for operator in progress.stateOperators)
        self.late_rows += sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators)
        joins = batch_counters(progress)
        before = self._late.total
        self._late.add([counters.slots for counters in joins])
        self.late_rows += self._late.total - before
        self.vanished.read(int(one.numInputRows) for one in progress.sources)
        said = self._corrupt(progress) + [one for counters in joins for one in self.vanished.add(counters.slots)]
        rows, brought = self._rows(progress), self._brought(progress, names)
        if rows:
            self.batches += 1
            self.input_rows += rows
            self.latency = progress.batchDuration
            begun = datetime.fromisoformat(progress.timestamp).timestamp() * 1000
            since = max(begun - self._begun if self._begun else 0, progress.batchDuration, 1)
            self.rate, self._begun = rows / since * 1000, begun
            self._look_at_inputs(brought)
        if self.heard is not None and self._second is None:
            self.heard(progress, brought, output)
        return said

    def _corrupt(self, progress: Any) -> list[str]:
        said = []
        for name, observed in (progress.observedMetrics or {}).items():
            stream = name.removeprefix(CORRUPT)
            if stream != name and observed[0]:
                if stream not in self.corrupt:
                    some = count(observed[0], "record")
                    said.append(
                        f"{some} of {stream} so far: corrupt, or not of the declared types; {_CORRUPT_ARE_NULL}"
                    )
                self.corrupt[stream] = self.corrupt.get(stream, 0) + int(observed[0])
        return said

    @property
    def lost(self) -> list[str]:
        """What the query has lost, for its summary."""
        corrupt = [f"{count(some, 'corrupt record')} of {stream}" for stream, some in self.corrupt.items()]
        return [*corrupt, *phrases(self.vanished.rows)]

    def silent(self) -> list[str]:
        """Return the inputs without a row, at the end; each once."""
        if not self.input_rows and not self.late_rows:
            return [] if self.batch > 0 else [_NOTHING_CAME]
        return self.vanished.silent(while_others=True)

    def _rows(self, progress: Any) -> int:
        """Return the rows of a micro-batch. Spark counts a stream's rows for each time that the query reads it."""
        if not progress.sources:
            return int(progress.numInputRows)
        return sum(int(one.numInputRows) // self._readings.get(one.description, 1) for one in progress.sources)

    def _state_rows(self, progress: Any) -> int:
        """Return the rows that joins keep, by their units' last report, and the entries of Spark's own operators."""
        for join, counters in enumerate(batch_counters(progress)):  # names of joins in views may be equal
            self._kept.update(((join, slot["slot"]), slot["state_rows"]) for slot in counters.slots)
        spark = (int(one.numRowsTotal) for one in progress.stateOperators if not one.operatorName.startswith(_OURS))
        return sum(self._kept.values()) + sum(spark)

    def _brought(self, progress: Any, names: dict[str, str]) -> dict[str, int]:
        """Return the rows of each input in a micro-batch."""
        brought: dict[str, int] = {}
        for source in progress.sources:
            name = next((name for mark, name in names.items() if mark in source.description), source.description)
            rows = int(source.numInputRows) // self._readings.get(source.description, 1)
            brought[name] = brought.get(name, 0) + rows
        return brought

    def _look_at_inputs(self, brought: dict[str, int]) -> None:
        for name, rows in brought.items():
            self._quiet[name] = 0 if rows else self._quiet.get(name, 0) + 1
        self.idle = tuple(name for name, count in self._quiet.items() if count >= IDLE)

    @property
    def held_back(self) -> bool:
        """Whether the watermark waits, and the expiry of state with it, while inputs are idle."""
        return bool(self.idle) and self._waiting >= IDLE

    @property
    def still_open(self) -> str | None:
        """What the sink does not have yet, and why; None if it has everything."""
        if not self.appends or not self.open_groups:
            return None
        at = f"at {short_time(self.watermark)}" if self.watermark else "not there yet"
        many = "windows or groups are" if self.open_groups > 1 else "window or group is"
        return (
            f"{self.open_groups:,} {many} still open, and not in {self.sink}: in append mode they come when the "
            f"watermark ({at}) passes their end, which later rows of every input make it do"
        )

    @property
    def shown_rate(self) -> str:
        """The rate for people: a trickle is not shown as zero."""
        return rate(self.rate)

    @property
    def all_in(self) -> int:
        """Rows in, the running batch's too."""
        return self.input_rows + self.running[0]

    @property
    def all_out(self) -> int:
        """Rows out; of a batch that runs, what the join has found."""
        return self.output_rows + self.running[1]

    @property
    def shown_latency(self) -> str:
        """The time that a batch takes, or in real time a result: half of them less than the first."""
        if self.latencies:
            return f"{milliseconds(self.latencies['p50'])} (99 %: {milliseconds(self.latencies['p99'])})"
        return f"{self.latency:,} ms" if self.latency < 10_000 else f"{self.latency / 1000:,.1f} s"

    @property
    def shown_late(self) -> str:
        """The late rows for people: where there may be more, with a sign that says so."""
        return ("≥ " if self._late.at_least else "") + number(self.late_rows)

    @property
    def how_late(self) -> dict[str, dict[str, int]]:
        """How late the late rows of each joined stream were (`LateRows.how_late`)."""
        return self._late.how_late()

    @property
    def furthest_late(self) -> str:
        """How far the latest of them was behind the watermark at most, in words; empty if no row of a join was late."""
        words = (*LIMITS, f"more than {list(LIMITS)[-1]}")
        found = [at for some in self._late.behind.values() for at, rows in enumerate(some) if rows]
        return words[max(found)] if found else ""

    @property
    def told_late(self) -> list[str]:
        """How late rows were, in words, and where they are."""
        where = f", in {self.late_sink}" if self.late_sink else ""
        return [f"late rows of {stream}{where}: {said_late(some)}" for stream, some in self.how_late.items()]

    def to_dict(self) -> dict[str, Any]:
        """Return the tally as plain data."""
        return {
            "sink": self.sink,
            "last_batch": self.batch,
            "batches": self.batches,
            "input_rows": self.all_in,
            "output_rows": self.all_out,
            "late_rows": self.late_rows,
            "late_rows_at_least": self._late.at_least,
            "how_late": self.how_late,
            "late_sink": self.late_sink or None,
            "state_rows": self.state_rows,
            "state_bytes": self.state_bytes,
            "latency_ms": self.latencies,
            "watermark": self.watermark or None,
            "open_groups": self.open_groups,
            "idle_inputs": list(self.idle),
            "idle_inputs_hold_watermark": self.held_back,
            "corrupt_records": self.corrupt,
            "null_rows": self.vanished.rows,
        }

    def __str__(self) -> str:
        """Where the query is now: a line of progress."""
        parts = [f"batch {max(self.batch, 0)}", *self._rows_so_far()]
        parts += [f"{self.shown_rate} rows/s"] if self.rate else []
        if self.latencies:
            parts.append(self.shown_latency)
        elif self.rate:
            parts.append(f"{self.latency:,} ms a batch")
        parts += self._kept_so_far()
        if self.idle:
            parts.append(f"idle: {', '.join(self.idle)}{_HELD if self.held_back else ''}")
        return f"{self.sink}: {' · '.join(parts)}"

    def summary(self) -> str:
        """Return what the query has done, for when it is over: no rates, and nothing of its last micro-batch alone."""
        return f"{self.sink}: {' · '.join([*self._rows_so_far(), *self._kept_so_far()])}"

    def _rows_so_far(self) -> list[str]:
        return [f"{count(self.all_in, 'row')} in", f"{count(self.all_out, 'row')} out"]

    def _kept_so_far(self) -> list[str]:
        parts = []
        if self.state_rows:
            parts.append(f"state {count(self.state_rows, 'row')}, {byte_size(self.state_bytes)}")
        if self.watermark:
            parts.append(f"watermark {short_time(self.watermark)}")
        if self.late_rows:
            parts.append(f"{'at least ' if self._late.at_least else ''}{count(self.late_rows, 'row')} late")
        return parts


def readings(query: StreamingQuery) -> dict[str, int]:
    """Return how often a query reads each source, by its description: two joins of one stream read it twice."""
    from py4j.protocol import Py4JError

    try:
        leaves: Any = query._jsq.streamingQuery().logicalPlan().collectLeaves()
        streaming = [leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.isStreaming()]
        return dict(Counter(str(_source(leaf).toString()) for leaf in streaming))
    except Py4JError:  # not the plan that we know
        return {}


def _source(leaf: Any) -> Any:
    return leaf.source() if leaf.nodeName() == "StreamingExecutionRelation" else leaf.stream()


def input_names(streams: list[CreateStream]) -> dict[str, str]:
    """Return the part of Spark's description of a source that identifies each stream; ambiguous ones are left out."""
    marks: dict[str, list[str]] = {}
    for stream in streams:
        options = stream.options
        path, topic = options.text("path"), options.text("subscribe") or options.text("subscribePattern")
        if path is not None:
            mark = str(local_path(path) or path)
            mark = f"{mark}]" if not mark.endswith("]") else mark
        elif topic is not None:
            mark = f"Subscribe[{topic}]"
        elif options.text("port") is not None:
            mark = f"port: {options.text('port')}"
        elif stream.format.text.lower() == "rate":
            mark = f"rowsPerSecond={options.text('rowsPerSecond') or 1},"
        else:
            continue
        marks.setdefault(mark, []).append(stream.name.text)
    return {mark: names[0] for mark, names in marks.items() if len(names) == 1}


class Board:
    """Shows the tallies of all queries: in a table that is redrawn, or by a line every few seconds."""

    def __init__(self, console: Console, tallies: list[Tally], *, live: bool) -> None:
        self.console, self.tallies = console, tallies
        #: A heading that says what is going on.
        self.status: Callable[[], str] = lambda: "starting"
        self._live = Live(console=console, get_renderable=self._table, refresh_per_second=4) if live else None
        self._told = time.monotonic()
        self._shown: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> Board:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def refresh(self) -> None:
        """Show what has changed."""
        if self._live is None and time.monotonic() - self._told >= LINE:
            self._told = time.monotonic()
            for tally in self.tallies:
                now = tally.batch, tally.all_in
                if self._shown.get(tally.sink) != now and (tally.batch >= 0 or tally.all_in):
                    self._shown[tally.sink] = now
                    self.console.print(str(tally), markup=False)

    def say(self, text: str) -> None:
        """Show a line that stays."""
        self.console.print(text, markup=False)

    def warn(self, text: str) -> None:
        """Show a warning that stays."""
        self.console.print(Text(f"{text} (warning)", style="yellow"))

    def _table(self) -> Group:
        """Return the table; idle inputs, and columns that do not fit a narrow terminal, are below it."""
        wide = self.console.width >= WIDE
        table = Table(box=None, pad_edge=False, padding=(0, 2 if wide else 1, 0, 0))
        table.add_column("sink", overflow="ellipsis")
        for heading in ("batch", "rows/s", "rows in", "rows out", "latency", "rows kept", "state", "late"):
            table.add_column(heading, justify="right", no_wrap=True)
        if wide:
            table.add_column("watermark", no_wrap=True)
        below = []
        for tally in self.tallies:
            idle = ", ".join(tally.idle) + (_HELD if tally.held_back else "")
            table.add_row(
                tally.sink,
                "" if tally.batch < 0 else f"{tally.batch:,}",
                tally.shown_rate,
                number(tally.all_in),
                number(tally.all_out),
                tally.shown_latency,
                number(tally.state_rows),
                byte_size(tally.state_bytes),
                tally.shown_late,
                *([short_time(tally.watermark)] if wide else ()),
            )
            told = [f"watermark {short_time(tally.watermark)}"] if tally.watermark and not wide else []
            told += [f"idle inputs: {idle}"] if idle else []
            if told:
                below.append(Text.assemble(f"{tally.sink}: ", (" · ".join(told), "yellow" if idle else "")))
        return Group(Text(self.status(), style="dim"), table, *below)


def said_late(behind: Mapping[str, int]) -> str:
    """Return how far rows were behind the watermark that they missed, in words.

    Examples
    --------
    >>> said_late({"10 seconds": 3, "more": 1})
    '3 by up to 10 seconds, 1 by more than 1 day'
    """
    furthest = list(LIMITS)[-1]
    return ", ".join(
        f"{number(rows)} by {'more than ' + furthest if limit == FURTHER else 'up to ' + limit}"
        for limit, rows in behind.items()
    )


def rate(rows: float) -> str:
    """Return a number a second for people."""
    return f"{rows:.1f}" if 0 < rows < 10 else number(rows)


def number(count: float) -> str:
    """Return a count for people: with all digits below a million."""
    for power, letter in ((9, "G"), (6, "M")):
        if count >= 10**power:
            return f"{count / 10**power:,.2f} {letter}"
    return f"{count:,.0f}"


def short_time(text: str) -> str:
    """Return a time of Spark's progress reports without its fraction and zone letter."""
    return text[:19].replace("T", " ")


def _watermark(progress: Any) -> str:
    text = str((progress.eventTime or {}).get("watermark", ""))
    return "" if text.startswith("1970-01-01") else text  # Spark's word for none


def _bytes(operator: Any) -> int:
    files = (operator.customMetrics or {}).get("rocksdbSstFileSize", 0)
    return int(operator.memoryUsedBytes) + int(files)
