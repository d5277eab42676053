"""What a SET of a job sets."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a ``SET key = value`` sets.

    Parameters
    ----------
    key, value
        The value as Spark takes it: all the text that follows, including quotes.
    start
        Offset of the key in the statement.
    """

    key: str
    value: str
    start: int


def assignment(sql: str) -> Assignment | None:
    """Return what a ``SET key = value`` or a ``SET TIME ZONE 'zone'`` sets, None for any other statement.

    Examples
    --------
    >>> assignment("SET `spark.trijoin.units` = 4 ")
    Assignment(key='spark.trijoin.units', value='4', start=5)
    """
    zone = re.match(r"\s*SET\s+TIME\s+ZONE\s+'([^']+)'\s*$", sql, re.IGNORECASE)
    if zone is not None:
        return Assignment("spark.sql.session.timeZone", zone[1], zone.start(1))
    found = re.match(r"\s*SET\s+`?([\w.:-]+)`?\s*=(.*)", sql, re.IGNORECASE | re.DOTALL)
    return None if found is None else Assignment(found[1], found[2].strip(), found.start(1))
