"""What a slot knows of time in every micro-batch, whether rows came for it or not.

What is late is told by the watermark of the micro-batch before. Spark gives a task that of its own micro-batch alone,
and calls a slot where rows come, or where the watermark has reached a timer. So each slot has a timer a millisecond
behind the watermark that it knows: it is called as soon as there is another one, and never twice for one. That stands
in the state, so it is right after a restart and in a micro-batch that is tried again. It stands apart from the
manifest, which is larger and which time does not change.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass

from .manifest import CLOCK
from .slot_state import ChunkMap


@dataclass(frozen=True, slots=True)
class Clock:
    """What a slot knows of time: all in milliseconds, as Spark has its watermark.

    Parameters
    ----------
    watermark
        Of the last micro-batch with another one than before; 0 if there was none.
    due
        The slot has work to do, without rows, as soon as the watermark has reached this; None if never.
    timer
        The timer that is registered, None if none is: the slot is retired, and empty.
    """

    watermark: int = 0
    due: int | None = None
    timer: int | None = None

    @classmethod
    def read(cls, chunks: ChunkMap) -> Clock | None:
        """Return what the state says; None in one from before there were clocks, or if there is none yet."""
        # Spark logs a warning for each value that is asked for and not there.
        saved = chunks.getValue((CLOCK,)) if chunks.containsKey((CLOCK,)) else None
        return None if saved is None else cls(*json.loads(bytes(saved[0])))

    def write(self, chunks: ChunkMap) -> None:
        """Make it durable."""
        chunks.updateValue((CLOCK,), (json.dumps(astuple(self)).encode(),))
