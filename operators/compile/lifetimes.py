"""Which statements may still run: those whose plans the JVM has.

What the driver keeps for a statement (`operators.task.reports`, `trijoin_sql.running.known_joins`) is needed as long as
a DataFrame, a view or a query has its plan, and copies of plans are Spark's own. All of them refer to one object for
the join's function in Python, so a weak map of the JVM's tells.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from .logical_plans import plan_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_lock = threading.Lock()
_bound: set[int] = set()
_functions: dict[Any, Any] = {}  # by JVM; there is one


def bind(frame: DataFrame, number: int) -> None:
    """Let a statement live as long as the plan of a stage's output, or any made from it.

    Parameters
    ----------
    frame
        What ``transformWithState`` returned, in a classic session.
    number
        The statement's.
    """
    from py4j.protocol import Py4JError

    jvm: Any = frame.sparkSession._jvm
    try:
        function = plan_of(frame).functionExpr().func()
    except Py4JError:  # Spark's inside is not as we know it: it lives for ever
        return
    with _lock:
        if jvm not in _functions:  # the plans of another JVM have ended with it
            _functions.clear()
            _functions[jvm] = jvm.java.util.WeakHashMap()
        _functions[jvm].put(function, number)
        _bound.add(number)


def ended() -> frozenset[int]:
    """Return the statements whose plans are gone since this was asked last; the JVM collects garbage when it likes."""
    from py4j.java_gateway import JavaObject

    with _lock:
        alive: set[int] = set()
        for found in _functions.values():
            text = str(JavaObject.__getattr__(found, "values")().toString())  # Python's own would be a call for each
            alive |= {int(number) for number in text.strip("[]").split(", ") if number}
        gone = frozenset(_bound - alive)
        _bound.difference_update(gone)
    return gone
