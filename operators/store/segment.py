"""A segment: rows of a store with neighbouring ids, their indexes, and how long they are kept."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ..batches.pieces import longest_text
from .index import SortedIndex, Zone

#: A window's length is divided into about this many archive periods; segments do not merge across more than one.
ARCHIVE_PERIODS = 8

#: Ids of rows whose event time is far ahead of the others'.
AHEAD = 1 << 40

Body = tuple[pa.RecordBatch, dict[str, SortedIndex]]


@dataclass(eq=False, slots=True)
class Segment:
    """Rows with ids ``start`` to ``start + count``, and an index for each sort_order of its store.

    Parameters
    ----------
    start, count
        The ids.
    oldest, newest
        Extremes of its event times (microseconds).
    size
        Bytes of its rows, about.
    zones
        For each index the least and greatest keys in it, as far as they are known.
    file
        Its name in the warm copy, None if it is not there.
    held
        Rows and indexes, None while they are neither in memory nor mapped.
    fetch
        Brings the body back from the state store.
    map
        Maps the file and sets what is held; or takes the file away, if it is damaged.
    stamp
        When the file had been changed last (nanoseconds) as it was mapped.
    small
        The body as the warm copy's views hold it, where it is too small for a file.
    longest
        Bytes of text and the like that a row has at most; until the body was seen it may be too many.
    """

    start: int
    count: int
    oldest: int | None = None
    newest: int | None = None
    size: int = 0
    zones: dict[str, Zone] = field(default_factory=dict)
    file: str | None = None
    held: Body | None = None
    fetch: Callable[[Segment], Body] | None = None
    map: Callable[[Segment], None] | None = None
    stamp: int = 0
    small: pa.Buffer | None = None
    longest: int = 0

    @classmethod
    def of(cls, start: int, rows: pa.RecordBatch, indexes: dict[str, SortedIndex], life: Lifetime) -> Segment:
        """Return a segment of rows in memory."""
        zones = {key: index.zone() for key, index in indexes.items()}
        made = cls(start, rows.num_rows, *life.span(rows), rows.nbytes, zones, None, (rows, indexes))
        made.longest = longest(rows)
        return made

    @property
    def stop(self) -> int:
        """The id behind the last row."""
        return self.start + self.count

    @property
    def is_here(self) -> bool:
        """Whether rows and indexes are in memory, or (unless it is damaged) in a file of this machine."""
        return self.held is not None or self.file is not None

    @property
    def body(self) -> Body | None:
        """Rows and indexes, None if they are neither in memory nor in a file of this machine, mapped at the first look.

        So a worker looks at (and checks) those files only that it needs.
        """
        if self.held is None and self.file is not None and self.map is not None:
            self.map(self)
        return self.held

    @body.setter
    def body(self, body: Body | None) -> None:
        self.held = body

    @property
    def rows(self) -> pa.RecordBatch:
        """Its rows, brought back if need be."""
        return self.loaded()[0]

    @property
    def indexes(self) -> dict[str, SortedIndex]:
        """Its indexes, brought back if need be."""
        return self.loaded()[1]

    def loaded(self) -> Body:
        """Return rows and indexes. The caller's reference keeps them in memory, the segment's own may go any time."""
        if (body := self.body) is not None:
            return body
        assert self.fetch is not None, "a segment without a body knows where to get it"
        return self.fetch(self)


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long the rows of a store are kept.

    Parameters
    ----------
    time
        The column with their event time (microseconds), None if they have none.
    keep_for
        A row can find partners until the watermark is this many microseconds later than it; None for ever.
    """

    time: str | None = None
    keep_for: int | None = None

    def span(self, rows: pa.RecordBatch) -> tuple[int | None, int | None]:
        """Return the least and the greatest event time of some rows."""
        if self.time is None or self.keep_for is None or not rows.num_rows:
            return None, None
        times = pc.min_max(rows.column(self.time)).as_py()
        return times["min"], times["max"]

    def is_over(self, newest: int | None, watermark: int) -> bool:
        """Return whether rows up to an event time are no longer needed. There is no watermark yet while it is 0."""
        if newest is None or self.keep_for is None:
            return False
        return watermark > 0 and newest + self.keep_for <= watermark

    def may_merge(self, older: Spanned, younger: Spanned) -> bool:
        """Return whether rows may live in one piece: within an archive period (003 section 3.3).

        Pieces that are wide by themselves may merge if that hardly widens them.
        """
        if self.keep_for is None or older.newest is None or younger.newest is None:
            return True
        oldest, newest = joint_span(older, younger)
        if oldest is None or newest is None:
            return True
        widest = max(piece.newest - piece.oldest for piece in (older, younger))  # type: ignore[operator]
        return newest - oldest <= max(self.keep_for / ARCHIVE_PERIODS, 1.25 * widest)


class Spanned(Protocol):
    """Something with a span of event times."""

    @property
    def oldest(self) -> int | None: ...

    @property
    def newest(self) -> int | None: ...


def joint_span(one: Spanned, other: Spanned) -> tuple[int | None, int | None]:
    """Return the span of two pieces together."""
    if one.oldest is None or other.oldest is None or one.newest is None or other.newest is None:
        return None, None
    return min(one.oldest, other.oldest), max(one.newest, other.newest)


def joint_zones(segments: Sequence[Segment]) -> dict[str, Zone]:
    """Return zones that hold the keys of all segments, for each index that all of them have one of."""
    found: dict[str, Zone] = {}
    for key in segments[0].zones:
        if all(key in segment.zones for segment in segments):
            columns = zip(*(segment.zones[key] for segment in segments), strict=True)
            first, last, low, high, reach = (
                None if None in column else extreme(column)
                for extreme, column in zip((min, max, min, max, max), columns, strict=True)
            )
            found[key] = first, last, low, high, reach
    return found


def longest(rows: pa.RecordBatch) -> int:
    """Return how many bytes of text and the like a row has at most, in columns that results or predicates may have.

    Packed columns are called c0, c1 and so on. What begins with two underscores is a scheme's own: lists of members,
    which are long and never leave the unit with the row.
    """
    return longest_text(rows, [name for name in rows.schema.names if not name.startswith("__")])


class Placed(Protocol):
    """Something that begins with a row's id."""

    @property
    def start(self) -> int: ...


_Placed = TypeVar("_Placed", bound=Placed)


def lanes(pieces: Sequence[_Placed]) -> tuple[list[_Placed], list[_Placed]]:
    """Return the pieces of rows that came in time, and those of rows far ahead, each in the order of their ids."""
    at = bisect_left(pieces, AHEAD, key=lambda piece: piece.start)
    return list(pieces[:at]), list(pieces[at:])
