"""Time zones: how far wall-clock time and elapsed time can be apart."""

from __future__ import annotations

import datetime
from difflib import get_close_matches
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

_DAY = 86_400_000_000

#: The first words of names that only whole collections of zones have.
_OLD_AREAS = ("Brazil", "Canada", "Chile", "Mexico", "Mideast", "SystemV", "US")


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


def hint_if_no_zone(zone: str) -> str | None:
    """Return which time zone may have been meant, None unless it is certain that Java knows none of that name.

    Java's collection and Python's are not of one age, so only a name in an unknown area, or one like another, is wrong.

    Examples
    --------
    >>> hint_if_no_zone("Europe/Berlim"), hint_if_no_zone("Mars/Olympus")
    ('did you mean Europe/Berlin?', 'write Europe/Berlin or +02:00, say')
    >>> hint_if_no_zone("UTC+3"), hint_if_no_zone("Europe/Nowhere")
    (None, None)
    """
    zones = available_timezones()
    area, _, place = zone.partition("/")
    if not place or zone in zones or "Asia/Calcutta" not in zones:  # there is not even the whole collection
        return None
    for meant in get_close_matches(zone, sorted(zones), 1, 0.9):
        return f"did you mean {meant}?"
    known = {name.partition("/")[0] for name in zones} | {*_OLD_AREAS}
    return None if area in known else "write Europe/Berlin or +02:00, say"
