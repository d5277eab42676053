"""What a `DataStreamWriter` of a classic session was told, read from inside of Spark's."""

from __future__ import annotations

from typing import Any


def written(writer: Any, field: str) -> Any:
    """Return a field of a writer; None where Spark's inside is not as we know it."""
    from py4j.protocol import Py4JError

    try:
        found = writer._jwrite.getClass().getDeclaredField(field)
        found.setAccessible(True)
        return found.get(writer._jwrite)
    except (Py4JError, AttributeError, TypeError):
        return None


def location(writer: Any) -> str | None:
    """Return where the checkpoint of a writer is to be, None if it does not say."""
    options = written(writer, "extraOptions")
    for key in ("checkpointLocation", "queryName"):
        value = None if options is None else options.get(key)
        if value is None or not value.isDefined():
            continue
        if key == "checkpointLocation":
            return str(value.get())
        folder = writer._spark.conf.get("spark.sql.streaming.checkpointLocation", None)
        return None if folder is None else f"{folder}/{value.get()}"
    return None
