"""What a Python worker process remembers of the slots that land in it, from one task to the next: one object of it."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..recent import Recent

if TYPE_CHECKING:
    from ..schemes.base import Slot
    from ..store.segment import Segment
    from .warm import WarmCopy


#: How many slots a worker process remembers.
_RECENT = 16


@dataclass(slots=True)
class Worker:
    """The memory of this process.

    Parameters
    ----------
    recent
        Slots of its last batches, by uid: the version, what for, the slot, its warm copy.
    visiting
        Segments that are in memory for a visit, and their bytes: they have no file, for the warm copy is full.
    unseen
        Bytes that it has written since it last looked at the files of all slots: a copy, which comes and goes with the
        slots that land here, could not tell. Infinite from its first write to its first look.
    looked
        Whether it has looked at them.
    sums
        By folder: its time of change when it was last opened, and the bytes of its segments then.
    swept
        When it last looked for copies of queries that are gone.
    warned
        Whether it has said that it keeps no copies.
    """

    recent: Recent[str, tuple[str, object, Slot, WarmCopy]] = field(default_factory=lambda: Recent(_RECENT))
    visiting: OrderedDict[Segment, int] = field(default_factory=OrderedDict)
    unseen: float = 0
    looked: bool = False
    sums: dict[str, tuple[int, int]] = field(default_factory=dict)
    swept: float = -math.inf
    warned: bool = False


#: That of this process.
WORKER = Worker()
