"""Why a running query failed, in one sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import NO_WORKER, TOO_BUSY

if TYPE_CHECKING:
    from .statements import CreateStream

#: Conditions of Spark that only say that something below failed.
_WRAPPERS = ("STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR", "TASK_WRITE_FAILED", "FAILED_EXECUTE_UDF")


def reason(error: object) -> str:
    """Return why a query failed: our condition, the Python exception below all wrappers, or Spark's own sentence.

    Parameters
    ----------
    error
        A ``StreamingQueryException``, or its text.
    """
    text = str(error)
    if NO_WORKER in text:
        return TOO_BUSY
    ours = re.search(r"\[TRIJOIN_\w+\] .*", text)
    if ours:
        return ours[0].strip()
    spark = [found for found in re.finditer(r"\[([A-Z][A-Z_0-9.]+)\] (?=([^\n]+))", text) if found[1] not in _WRAPPERS]
    python = _python_exception(text)
    if python is not None and not (spark and spark[0].start() < text.find("Traceback")):
        return python
    if spark:
        return f"{_plain(spark[0][2])} [{spark[0][1]}]"
    return _plain(text.partition("terminated with exception: ")[2].partition("\n")[0] or text.partition("\n")[0])


def with_socket(why: str, streams: Iterable[CreateStream]) -> str:
    """Return why a query failed, with the address of the socket if one failed: Java names neither host nor port.

    Parameters
    ----------
    why
        What `reason` said.
    streams
        The job's streams.
    """
    places = [
        (stream.options.text("host") or "", stream.options.text("port"))
        for stream in streams
        if stream.format.text.lower() == "socket"
    ]
    if any(why == host for host, _ in places):
        return f"there is no host named {why}"
    if places and re.match(r"Connection (?:refused|timed out|reset)|No route to host|Network is unreachable", why):
        return f"{why}: {', '.join(sorted({f'{host}:{port}' for host, port in places}))} (a server must listen first)"
    return why


def _python_exception(text: str) -> str | None:
    """Return the last line of the first Python traceback: the exception's name and message."""
    lines = text.partition("Traceback (most recent call last):")[2].splitlines()
    found = None
    for line in lines:
        if re.match(r"\s*(at |Driver stacktrace|\.\.\. \d+ more)", line):
            break
        if re.match(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning|Exit|Iteration)\b(?::|$)", line):
            found = line.strip()
    return None if found is None else found.removeprefix("py4j.protocol.")


def _plain(text: str) -> str:
    return re.sub(r"\s*SQLSTATE: \w{5}.*", "", text).strip().rstrip(".")
