"""Our own settings by name, so that a misspelt one is found before anything runs: Spark takes any name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..rewriter.sql.catalog import RATE_SETTING
from ..settings import NAMES
from .job_text import did_you_mean

_OURS = "spark.trijoin."


def hint_if_unknown(key: str) -> str | None:
    """Return which setting may have been meant, None for a setting of ours and for settings that we do not check.

    Examples
    --------
    >>> hint_if_unknown("spark.trijoin.unit")
    'did you mean spark.trijoin.units?'
    >>> hint_if_unknown("spark.trijoin.rate.orders"), hint_if_unknown("spark.sql.nonsense")
    (None, None)
    """
    if not key.lower().startswith(_OURS) or key in NAMES or key.lower().startswith(RATE_SETTING):
        return None
    return did_you_mean(key, NAMES)


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
    """Return what a ``SET key = value`` sets, None for any other statement.

    Examples
    --------
    >>> assignment("SET `spark.trijoin.units` = 4 ")
    Assignment(key='spark.trijoin.units', value='4', start=5)
    """
    found = re.match(r"\s*SET\s+`?([\w.:-]+)`?\s*=(.*)", sql, re.IGNORECASE | re.DOTALL)
    return None if found is None else Assignment(found[1], found[2].strip(), found.start(1))
