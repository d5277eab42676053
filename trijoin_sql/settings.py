"""Our own settings, ``spark.trijoin.*``: one table of their names and values, and the rewriter's settings.

The same functions read a session's settings and those that a job file sets, so `explain` of a file and its run
make the same plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_args

from .errors import InvalidSettingError
from .rewriter.options import DEFAULTS, MOST_UNITS, Settings, Tables
from .rewriter.sql.catalog import RATE_SETTING
from .rewriter.sql.similar import close, did_you_mean
from .spark.flags import PARTITIONS, SessionSettings, Setting, flag
from .spark.liberties import SWITCHES
from .spark.rates import COST, SELECTIVITY, WEIGHTS, cost_defaults
from .spark.zones import largest_shift

UNITS = "spark.trijoin.units"
WARM_BYTES = "spark.trijoin.warm.maxBytes"
REAL_TIME_MEMORY = "spark.trijoin.realTime.maxBytes"
AGGREGATE = "spark.trijoin.aggregateInUnits"
STRICT = "spark.trijoin.strict"
TABLES = "spark.trijoin.tables"
HISTORY_ROWS = "spark.trijoin.history.rows"
#: The prefix of the scaling settings, and the setting that turns scaling on.
SCALING = "spark.trijoin.scaling."
SCALING_ENABLED = f"{SCALING}enabled"

_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def _whole(least: int, most: int | None = None) -> Callable[[str, str], int]:
    def read(name: str, text: str) -> int:
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least or (most is not None and int(text) > most):
            limits = f"from {least} to {most}" if most is not None else f"of at least {least}"
            raise InvalidSettingError(name, text, f"it takes a whole number {limits}")
        return int(text)

    return read


def _size(name: str, text: str) -> int:
    found = re.fullmatch(r"([0-9]+)\s*([kmgt]?)b?", text.lower())
    if found is None:
        raise InvalidSettingError(name, text, "it takes a number of bytes, such as 512m or 8g")
    return int(found[1]) << _SHIFTS[found[2]]


def _share(name: str, text: str) -> float:
    if not re.fullmatch(r"\d*\.?\d+", text) or not 0 < float(text) <= 1:
        raise InvalidSettingError(name, text, "it takes a share above 0 and up to 1, such as 0.8")
    return float(text)


def _flag(name: str, text: str) -> bool:
    return flag({name: text}.get, name, default=False)


def _tables(name: str, text: str) -> str:
    if text.lower() not in get_args(Tables):
        raise InvalidSettingError(name, text, f"it takes one of {', '.join(get_args(Tables))}")
    return text.lower()


@dataclass(frozen=True, slots=True)
class OwnSetting:
    """A setting of ours, as in ``docs/settings.md``.

    Parameters
    ----------
    name
        For ``spark.conf.set``, or ``SET`` in a job.
    read
        Reads its value, given its name too. Raises InvalidSettingError.
    default
        As a user would write it, None if there is none.
    meaning
        What it says.
    """

    name: str
    read: Callable[[str, str], Any]
    default: str | None
    meaning: str


#: All of them, except rates, selectivities and weights (`rates`) and liberties (`liberties`).
OWN = (
    OwnSetting(UNITS, _whole(1, MOST_UNITS), None, "units of a stream's group where no hint sets them"),
    OwnSetting(AGGREGATE, _flag, "true", "whether units reduce results to groups where the query aggregates them"),
    OwnSetting(STRICT, _flag, "false", "whether queries are refused whose joins of streams keep rows for ever"),
    OwnSetting(
        TABLES, _tables, "theta", "joins of tables that are ours: `theta` (not by equalities alone), `all` or `none`"
    ),
    OwnSetting(HISTORY_ROWS, _whole(1), "200000", "rows of a table that `HISTORY` reads in a micro-batch, about"),
    OwnSetting(WARM_BYTES, _size, "16g", "limit for the copy of state on a machine's disk"),
    OwnSetting(
        REAL_TIME_MEMORY,
        _size,
        None,
        "limit for the rows that an executor keeps in memory with the trigger realTime; 40 % of its heap unless set",
    ),
    OwnSetting(SCALING_ENABLED, _flag, "false", "whether units follow the load"),
    OwnSetting(f"{SCALING}unitBytes", _size, "256m", "state (durable bytes) that a unit should hold"),
    OwnSetting(f"{SCALING}upper", _share, "0.8", "share of it, over all units, above which there are too few units"),
    OwnSetting(f"{SCALING}lower", _share, "0.3", "share below which there are too many"),
    OwnSetting(f"{SCALING}target", _share, "0.6", "the share after a change"),
    OwnSetting(f"{SCALING}decisions", _whole(1), "3", "micro-batches in a row that must agree"),
    OwnSetting(f"{SCALING}maxUnits", _whole(1), "64", "the most units"),
)
_BY_NAME = {setting.name: setting for setting in OWN}

#: All our settings except the rates of streams, whose names end with that of the stream.
NAMES = (
    *_BY_NAME,
    *(SELECTIVITY + kind for kind, _ in DEFAULTS.costs.selectivity),
    *(COST + name for name in WEIGHTS),
    *SWITCHES,
)


#: Settings of Spark's that plans depend on.
_READ_OF_SPARK = (PARTITIONS, "spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")


#: By setting of Spark's that plans depend on, the words that it takes.
_WORDS = {
    **dict.fromkeys(("spark.sql.ansi.enabled", "spark.sql.caseSensitive"), ("true", "false")),
    "spark.sql.streaming.multipleWatermarkPolicy": ("min", "max"),
}


def hint_if_unknown(key: str) -> str | None:
    """Return which setting may have been meant, None for a setting of ours and for settings that we do not check.

    Spark takes any name, so that a misspelt one would change nothing.

    Examples
    --------
    >>> hint_if_unknown("spark.trijoin.unit")
    'did you mean spark.trijoin.units?'
    >>> hint_if_unknown("spark.trijoin.rate.orders"), hint_if_unknown("spark.sql.nonsense")
    (None, None)
    >>> hint_if_unknown("spark.sql.shufle.partitions")
    'did you mean spark.sql.shuffle.partitions?'
    """
    slip = None if key in _READ_OF_SPARK else close(key, _READ_OF_SPARK, 0.95)
    if slip is not None:
        return f"did you mean {slip}?"
    known = not key.lower().startswith("spark.trijoin.") or key in NAMES or key.lower().startswith(RATE_SETTING)
    return None if known else did_you_mean(key, NAMES)


def check_value(get: Setting, name: str) -> None:
    """Raise an InvalidSettingError if a setting of ours, or a number of Spark's that we read, has no usable value."""
    if name in _BY_NAME:
        value(get, name)
    elif name in SWITCHES:
        flag(get, name, default=False)
    elif name in _WORDS and str(get(name)).strip().lower() not in _WORDS[name]:
        raise InvalidSettingError(name, get(name), f"it takes {' or '.join(_WORDS[name])}")
    elif name == PARTITIONS:
        parallelism({name: get(name) or ""}.get)


def refuse_unknown(get: SessionSettings) -> None:
    """Raise an InvalidSettingError if a session has a setting that looks like one of ours and is none, or no value."""
    for name in get.names():
        ours = name.lower().startswith("spark.trijoin.")
        if ours and (hint := hint_if_unknown(name)) is not None:
            raise InvalidSettingError(name, get(name), f"there is no such setting; {hint.rstrip('?')}")
        check_value(get, name)


def value(get: Setting, name: str) -> Any:
    """Return the value of one of `OWN`, or its default.

    Raises
    ------
    InvalidSettingError
        The value is not of the kind that the setting takes.
    """
    own, text = _BY_NAME[name], get(name)
    text = own.default if text is None else text
    return None if text is None else own.read(name, text.strip())


def parallelism(get: Setting) -> int | None:
    """Return how many tasks Spark runs in parallel, or the units set instead; None if neither is known."""
    partitions = get(PARTITIONS)
    units: int | None = value(get, UNITS)
    if partitions is not None and not re.fullmatch(r"[+-]?[0-9]{1,9}", partitions.strip()):
        raise InvalidSettingError(PARTITIONS, partitions, "it takes a whole number")
    return units or (None if partitions is None else max(int(partitions), 1))


def warm_bytes(get: Setting) -> int:
    """Return the bytes that the warm copies of a machine may take."""
    return int(value(get, WARM_BYTES))


def rewriter_settings(get: Setting) -> Settings:
    """Return the rewriter's settings for a session; settings that are not set have Spark's defaults.

    Raises
    ------
    InvalidSettingError
        A setting of ours has an invalid value.
    """
    ansi, zone = spark_flag(get, "spark.sql.ansi.enabled", default=True), get("spark.sql.session.timeZone")
    return Settings(
        case_sensitive=spark_flag(get, "spark.sql.caseSensitive"),
        join_before_comma=ansi and spark_flag(get, "spark.sql.ansi.relationPrecedence"),
        units=value(get, UNITS),
        parallelism=parallelism(get),
        elastic=value(get, SCALING_ENABLED),
        costs=cost_defaults(get),
        aggregate_in_units=value(get, AGGREGATE),
        strict=value(get, STRICT),
        tables=value(get, TABLES),
        ansi=ansi,
        chars_padded=spark_flag(get, "spark.sql.readSideCharPadding", default=True)
        or spark_flag(get, "spark.sql.legacy.noCharPaddingInPredicate"),
        zone_shift=DEFAULTS.zone_shift if zone is None else largest_shift(zone),
    )


def spark_flag(get: Setting, name: str, *, default: bool = False) -> bool:
    """Return a setting of Spark that is true or false; Spark has refused other values."""
    text = get(name)
    return default if text is None else text.strip().lower() == "true"
