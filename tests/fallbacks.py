"""What the product says while it gives a query back to Spark: its rows are Spark's, and show nothing of ours."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def fallbacks() -> Iterator[list[str]]:
    """Yield a list that gets each sentence about a query that should have been ours, and that Spark ran after all."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if text.startswith("left to Spark:") or "a bug of TriJoin SQL" in text:
                said.append(text)

    logger, listener = logging.getLogger("trijoin_sql"), Listener(logging.WARNING)
    logger.addHandler(listener)
    try:
        yield said
    finally:
        logger.removeHandler(listener)
