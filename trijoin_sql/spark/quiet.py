"""A terminal that shows only our lines, while a JVM and its Python workers run beside us.

Spark writes to stderr before any setting of its log can apply (the JVM's own warnings, the hostname, Hadoop), and its
Python workers write a few lines for every micro-batch. None of that passes through Python's logging. So the JVM gets a
pipe for its stderr. Its lines are kept in case something fails, and shown only on request.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .config import submitted_settings
from .liberties import JVM_PIPE, taken

#: Loggers of py4j's and PySpark's. The latter write the whole stack of every error that names a place in SQL, as JSON.
_NOISY = ("py4j", "SQLQueryContextLogger", "DataFrameQueryContextLogger")

#: The number of kept lines of the JVM's stderr.
KEPT = 400


@contextlib.contextmanager
def quiet_jvm(
    show: Callable[[str], None] | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[deque[str]]:
    """Give a JVM that PySpark starts inside the block a pipe for its stderr, and a process group of its own.

    The process group keeps signals to us (Ctrl-C, ``timeout``, a service manager's) from ending the JVM in the middle
    of a micro-batch: we stop the queries, and the JVM ends with us, when its stdin closes.

    Parameters
    ----------
    show
        Called with every line of the JVM's, as long as the JVM lives; None keeps the terminal quiet.
    settings
        What the user set, None for what is set outside of the program. They may switch this off (`liberties`): then the
        block changes nothing.

    Returns
    -------
    context manager
        Of the last lines that the JVM and its Python workers have written, oldest first.

    Examples
    --------
    >>> with quiet_jvm() as lines:  # doctest: +SKIP
    ...     spark = SparkSession.builder.getOrCreate()
    """
    from pyspark import java_gateway

    lines: deque[str] = deque(maxlen=KEPT)
    if not taken(JVM_PIPE, (submitted_settings() if settings is None else settings).get):
        yield lines
        return
    original: Any = vars(java_gateway)["Popen"]

    def drain(source: int) -> None:
        with os.fdopen(source, encoding="utf-8", errors="replace") as pipe:
            for line in pipe:
                lines.append(line.rstrip("\n"))
                if show is not None:
                    show(lines[-1])

    def start(command: Any, **options: Any) -> subprocess.Popen[Any]:
        read, write = os.pipe()
        try:
            process: subprocess.Popen[Any] = original(command, **{**options, "stderr": write, "process_group": 0})
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        threading.Thread(target=drain, args=(read,), name="jvm-stderr", daemon=True).start()
        return process

    vars(java_gateway)["Popen"] = start
    try:
        yield lines
    finally:
        vars(java_gateway)["Popen"] = original


@contextlib.contextmanager
def quiet_python() -> Iterator[None]:
    """For a block, silence PySpark's warnings, its log of raised errors, and py4j's log of ended connections."""
    levels = {name: logging.getLogger(name).level for name in _NOISY}
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
