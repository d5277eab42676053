"""Connections over which the JVM calls Python, closed when the thread that opened them is over.

Every thread of the JVM that calls Python, such as that of a streaming query with a listener or a function of
micro-batches in Python, opens a connection of its own, and for each there is a thread in Python. py4j closes neither
when the JVM's thread ends.
"""

from __future__ import annotations

import logging
from typing import Any

_log = logging.getLogger("trijoin_sql")


def connection_here(gateway: Any) -> int | None:
    """Return which connection the JVM uses for the call that runs: the port of its socket; None if that is shared.

    Parameters
    ----------
    gateway
        PySpark's gateway to the JVM.
    """
    of_thread = getattr(gateway._gateway_client, "get_thread_connection", None)  # not with PYSPARK_PIN_THREAD=false
    connection = None if of_thread is None else of_thread()
    return None if connection is None or connection.initiated_from_client else int(connection.socket.getpeername()[1])


def close_connection(gateway: Any, port: int) -> None:
    """Close a connection of the JVM's that nobody uses any more; Python's end of it follows."""
    from py4j.java_gateway import JavaObject
    from py4j.protocol import Py4JError

    try:
        client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
        kind = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient")
        idle, lock = (_field(kind, name, client) for name in ("connections", "lock"))
        lock.lock()
        try:
            found = [one for one in idle.toArray() if one.getSocket().getLocalPort() == port]
            for one in found:
                idle.remove(one)
        finally:
            lock.unlock()
        for one in found:
            one.shutdown()
    except (Py4JError, TypeError, AttributeError):
        _log.debug("a connection of py4j's stays open", exc_info=True)


def _field(kind: Any, name: str, of: Any) -> Any:
    field = kind.getDeclaredField(name)
    field.setAccessible(True)
    return field.get(of)
