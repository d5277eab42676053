"""Our own settings, ``spark.trijoin.*``: their names, how their values are read, and the rewriter's settings.

The same functions read a session's settings and those that a job file sets, so `explain` of a file and its run
make the same plan.
"""

from __future__ import annotations

import re

from .errors import InvalidSettingError
from .rewriter.options import DEFAULTS, MOST_UNITS, Settings
from .spark.flags import Setting, flag
from .spark.rates import cost_defaults
from .spark.zones import largest_shift

#: Name of the Spark setting (``spark.conf.set``) with the units of a stream's group.
UNITS = "spark.trijoin.units"
#: Name of the Spark setting with the bytes that the warm copies of a machine may take (``512m``, ``8g``).
WARM_BYTES = "spark.trijoin.warm.maxBytes"
#: Name of the Spark setting that says whether units reduce their results where a query aggregates them.
AGGREGATE = "spark.trijoin.aggregateInUnits"
#: The prefix of the scaling settings, and the setting that turns scaling on.
SCALING = "spark.trijoin.scaling."
SCALING_ENABLED = f"{SCALING}enabled"

_WARM_DEFAULT = "16g"
_ANSI = "spark.sql.ansi.enabled"
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def size(name: str, text: str) -> int:
    """Return the number of bytes of a text such as ``512m``.

    Parameters
    ----------
    name
        The setting.
    text
        Its value.

    Raises
    ------
    InvalidSettingError
        The text is not a size.
    """
    found = re.fullmatch(r"([0-9]+)\s*([kmgt]?)b?", text.strip().lower())
    if found is None:
        raise InvalidSettingError(name, text, "it takes a number of bytes, such as 512m or 8g")
    return int(found[1]) << _SHIFTS[found[2]]


def units(get: Setting) -> int | None:
    """Return the units that `UNITS` sets, None if it is not set.

    Raises
    ------
    InvalidSettingError
        The value is not a whole number from 1 to `MOST_UNITS`.
    """
    text = get(UNITS)
    if text is None:
        return None
    if not re.fullmatch("[0-9]{1,9}", text.strip()) or not 1 <= int(text) <= MOST_UNITS:
        raise InvalidSettingError(UNITS, text, f"it takes a whole number from 1 to {MOST_UNITS}")
    return int(text)


def parallelism(get: Setting) -> int | None:
    """Return how many tasks Spark runs in parallel, or the units set instead; None if neither is known."""
    partitions = get("spark.sql.shuffle.partitions")
    return units(get) or (None if partitions is None else max(int(partitions), 1))


def warm_bytes(get: Setting) -> int:
    """Return the bytes that the warm copies of a machine may take.

    Raises
    ------
    InvalidSettingError
        `WARM_BYTES` is not a size.
    """
    return size(WARM_BYTES, get(WARM_BYTES) or _WARM_DEFAULT)


def rewriter_settings(get: Setting) -> Settings:
    """Return the rewriter's settings for a session; settings that are not set have Spark's defaults.

    Raises
    ------
    InvalidSettingError
        A setting of ours has an invalid value.
    """
    ansi, zone = spark_flag(get, _ANSI, default=True), get("spark.sql.session.timeZone")
    return Settings(
        case_sensitive=spark_flag(get, "spark.sql.caseSensitive"),
        join_before_comma=ansi and spark_flag(get, "spark.sql.ansi.relationPrecedence"),
        units=units(get),
        parallelism=parallelism(get),
        elastic=flag(get, SCALING_ENABLED, default=False),
        costs=cost_defaults(get),
        aggregate_in_units=flag(get, AGGREGATE, default=True),
        ansi=ansi,
        zone_shift=DEFAULTS.zone_shift if zone is None else largest_shift(zone),
    )


def spark_flag(get: Setting, name: str, *, default: bool = False) -> bool:
    """Return a setting of Spark that is true or false; Spark has refused other values."""
    text = get(name)
    return default if text is None else text.strip().lower() == "true"
