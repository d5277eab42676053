"""A session's settings, and those that are true or false."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from ..errors import InvalidSettingError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = "spark.sql.shuffle.partitions"

#: Returns the value of a session's setting. One that nobody set has Spark's own default, None where Spark has none.
#: `PARTITIONS` is None, too: Spark's 200 says nothing about where a query runs.
Setting = Callable[[str], "str | None"]

#: By session: Spark's defaults, which may come from its environment.
_defaults: WeakKeyDictionary[SparkSession, dict[str, str | None]] = WeakKeyDictionary()


class SessionSettings:
    """What answers a session's settings, for one statement.

    On Spark Connect each look-up is a call of the server, so the first one takes all settings at once.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(self, name: str) -> str | None:
        """Return the value of a setting."""
        classic = hasattr(self._spark, "_jsparkSession")
        text = self._spark.conf.get(name, None) if classic else self._known.get(name)
        return _default(self._spark, name) if text is None else str(text)

    def names(self) -> Iterable[str]:
        """Return the names of what is set."""
        java: Any = getattr(self._spark, "_jsparkSession", None)
        return self._known if java is None else str(java.conf().getAll().keys().mkString("\n")).split("\n")

    @cached_property
    def _known(self) -> dict[str, str]:
        return self._spark.conf.getAll


def settings_of(spark: SparkSession) -> SessionSettings:
    """Return what answers a session's settings, for one statement."""
    return SessionSettings(spark)


def _default(spark: SparkSession, name: str) -> str | None:
    """Return Spark's value of a setting that nobody set. With a default given, ``conf.get`` would answer that one."""
    if not name.startswith("spark.sql.") or name == PARTITIONS:
        return None
    found = _defaults.setdefault(spark, {})
    if name not in found:
        from pyspark.errors import PySparkException

        try:
            found[name] = spark.conf.get(name)
        except PySparkException:  # an older Spark does not know it
            found[name] = None
    return found[name]


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
