"""A terminal that shows only our lines, while a JVM and its Python workers run beside us.

Spark writes to stderr before any setting of its log can apply (the JVM's own warnings, the hostname, Hadoop), and its
Python workers write a few lines for every micro-batch. None of that passes through Python's logging. So the JVM gets a
pipe for its stderr. On the command line its lines are kept in case something fails, and shown only on request. In a
session that `configure` made, all lines are passed on but those that are never for the user (`CHATTER`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import subprocess
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from .config import submitted_settings
from .liberties import JVM_PIPE, taken

#: Loggers of PySpark's that write the whole stack of every error that names a place in SQL, as JSON.
_OF_ERRORS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

#: The number of kept lines of the JVM's stderr.
KEPT = 400

#: Lines that come with every session or query, whatever the user does: of the JVM, of Spark's and Hadoop's start, about
#: adaptive execution (which streams never have), and a trace of Spark's that its processes print.
CHATTER = re.compile(
    rb"WARNING: (?:Using incubator modules: |package \S+ not in java\.base$)|Using Spark's default log4j profile: "
    rb"|Setting default log level to "
    rb"|To adjust logging level use sc\.setLogLevel|(?:Starting )?Streaming TransformWithStateInPandas Python worker"
    rb"|(?:\S+ ){0,2}WARN (?:"
    rb"Utils: (?:Your hostname, |Set SPARK_LOCAL_IP)|NativeCodeLoader: Unable to load native-hadoop"
    rb"|ResolveWriteToStream: (?:Temporary checkpoint location|spark\.sql\.adaptive\.enabled)"
    rb"|MicroBatchExecution: Disabling AQE|TransformWithStateInPySparkStateServer: No more data to read)"
)


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

    def drain(source: int) -> None:
        with os.fdopen(source, encoding="utf-8", errors="replace") as pipe:
            for line in pipe:
                lines.append(line.rstrip("\n"))
                if show is not None:
                    show(lines[-1])

    original: Any = vars(java_gateway)["Popen"]

    def start(command: Any, **options: Any) -> subprocess.Popen[Any]:
        return _piped(original, command, {**options, "process_group": 0}, drain)

    vars(java_gateway)["Popen"] = start
    try:
        yield lines
    finally:
        vars(java_gateway)["Popen"] = original


def leave_out_chatter() -> None:
    """Give the next JVM that PySpark starts a pipe for its stderr, and pass on what is not `CHATTER`."""
    from pyspark import java_gateway

    if vars(java_gateway)["Popen"] is not subprocess.Popen:  # `quiet_jvm` has it, or an earlier call
        return

    def start(command: Any, **options: Any) -> subprocess.Popen[Any]:
        vars(java_gateway)["Popen"] = subprocess.Popen
        return _piped(subprocess.Popen, command, options, _pass_on)

    vars(java_gateway)["Popen"] = start


def _piped(popen: Any, command: Any, options: Mapping[str, Any], drain: Callable[[int], None]) -> subprocess.Popen[Any]:
    """Start a process whose stderr a thread drains."""
    read, write = os.pipe()
    try:
        process: subprocess.Popen[Any] = popen(command, **{**options, "stderr": write})
    except BaseException:
        os.close(read)
        raise
    finally:
        os.close(write)
    threading.Thread(target=drain, args=(read,), name="jvm-stderr", daemon=True).start()
    return process


def _pass_on(source: int) -> None:
    """Write the lines of a pipe to our stderr, without chatter and the empty lines behind it."""
    rest, dropped = b"", False
    while chunk := os.read(source, 1 << 16):
        *lines, rest = (rest + chunk).split(b"\n")
        kept = []
        for line in lines:
            dropped = bool(CHATTER.match(line)) or (dropped and not line)
            if not dropped:
                kept.append(line + b"\n")
        if rest.startswith(b"\r"):  # a bar of progress is never a whole line
            kept.append(rest)
            rest = b""
        _write_all(b"".join(kept))
    _write_all(rest)
    os.close(source)


def _write_all(data: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody reads our stderr any more; the JVM must not wait for that
        while data:
            data = data[os.write(2, data) :]


#: Whether errors are expected, and answered by us.
_expected: ContextVar[bool] = ContextVar("expected", default=False)


def _is_told(_: logging.LogRecord) -> bool:
    return not _expected.get()


@contextlib.contextmanager
def errors_expected() -> Iterator[None]:
    """For a block, and this thread alone, keep PySpark from logging an error that it raises."""
    from pyspark.logger import PySparkLogger  # whoever makes one of its loggers first says of which class it is

    for name in _OF_ERRORS:
        PySparkLogger.getLogger(name).addFilter(_is_told)  # once, however often it is added
    token = _expected.set(True)
    try:
        yield
    finally:
        _expected.reset(token)


def leave_out_logged_errors() -> None:
    """Keep PySpark, in this process, from logging an error that it raises as well: 9 KB of JSON, with Java's stack."""
    from pyspark.logger import PySparkLogger  # whoever makes one of its loggers first says of which class it is

    for name in _OF_ERRORS:
        PySparkLogger.getLogger(name).addFilter(_is_nothing)  # once, however often it is added


def _is_nothing(_: logging.LogRecord) -> bool:
    return False


@contextlib.contextmanager
def quiet_python() -> Iterator[None]:
    """For a block, silence PySpark's warnings, its log of raised errors, and py4j's log of ended connections."""
    from pyspark.logger import PySparkLogger  # whoever makes one of its loggers first says of which class it is

    loggers = [logging.getLogger("py4j"), *map(PySparkLogger.getLogger, _OF_ERRORS)]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
