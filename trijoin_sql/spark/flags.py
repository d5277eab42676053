"""A session's settings, and those that are true or false."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from ..errors import InvalidSettingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ZONE = "spark.sql.session.timeZone"

#: Returns the value of a session's setting, None where it is not set.
Setting = Callable[[str], "str | None"]


def settings_of(spark: SparkSession) -> Setting:
    """Return what answers a session's settings, for one statement.

    On Spark Connect each look-up is a call of the server, so the first one takes all settings at once.
    """
    known = cache(lambda: spark.conf.getAll)

    def get(name: str) -> str | None:
        text = spark.conf.get(name, None) if hasattr(spark, "_jsparkSession") else known().get(name)
        if text is None and name == _ZONE:  # unset, it is that of the JVM
            text = spark.conf.get(name)
        return None if text is None else str(text)

    return get


def flag(get: Setting, name: str, *, default: bool) -> bool:
    """Return a setting of ours that is true or false.

    Raises
    ------
    InvalidSettingError
        It is neither.
    """
    text = get(name)
    known = {"true": True, "false": False}
    if text is None or text.strip().lower() in known:
        return default if text is None else known[text.strip().lower()]
    raise InvalidSettingError(name, text, "it takes true or false")
