"""Time zones: how far wall-clock time and elapsed time can be apart."""

from __future__ import annotations

import datetime
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_DAY = 86_400_000_000


@cache
def largest_shift(zone: str) -> int:
    """Return the largest change of a zone's offset between two moments, in microseconds; a day if the zone is unknown.

    Spark subtracts time stamps on the wall clock of the session's zone. Such a difference is as far from the elapsed
    time as the offset changes in between; bounds on event time allow for it. Zones are looked at from 1970 to 2100.

    Examples
    --------
    >>> largest_shift("UTC"), largest_shift("Europe/Berlin") // 60_000_000
    (0, 60)
    """
    if zone.upper() in ("UTC", "Z", "GMT", "ETC/UTC"):
        return 0
    try:
        info = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        return 0 if zone.startswith(("+", "-")) else _DAY
    start = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    offsets = set()
    for days in range(0, 47_500, 14):
        offset = (start + datetime.timedelta(days=days)).astimezone(info).utcoffset()
        offsets.add(offset or datetime.timedelta())
    return int((max(offsets) - min(offsets)) / datetime.timedelta(microseconds=1))
