"""Our own settings by name, so that a slip in one is found before anything runs: Spark takes any name."""

from __future__ import annotations

import re
from dataclasses import fields

from ..config import AGGREGATE, UNITS, WARM_BYTES
from ..rates import SELECTIVITY
from ..rewriter.catalog import RATE_SETTING
from ..rewriter.settings import CostDefaults
from ..scaling import ENABLED, ScalingPolicy, setting
from .script import did_you_mean

_OURS = "spark.trijoin."

#: All settings of ours but those of streams' rates, whose names go on with the stream's.
NAMES = (
    UNITS,
    AGGREGATE,
    WARM_BYTES,
    *(SELECTIVITY + kind for kind in dict(CostDefaults().selectivity)),
    ENABLED,
    *(setting(field.name) for field in fields(ScalingPolicy)),
)


def hint_if_unknown(key: str) -> str | None:
    """Return which setting may have been meant, None for a setting of ours or one that is none of ours to judge.

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


def set_key(sql: str) -> tuple[str, int] | None:
    """Return the key that a ``SET key = value`` sets and its offset, None for any other statement.

    Examples
    --------
    >>> set_key("SET spark.trijoin.units = 4")
    ('spark.trijoin.units', 4)
    """
    found = re.match(r"SET\s+`?([\w.-]+)`?\s*=", sql, re.IGNORECASE)
    return None if found is None else (found[1], found.start(1))
