"""Arguments of a query in its conditions, so that ``r.a < s.a + :most`` is a band and not a filter above the join."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence

from sqlglot import exp

from .dialect import parse_expression
from .statement import positional_name

#: The values of ``:name`` or ``?``, as ``spark.sql(args=...)`` takes them.
Arguments = Mapping[str, object] | Sequence[object] | None


def put_into_conditions(arguments: Arguments, tree: exp.Expr) -> None:
    """Replace the markers in WHERE and ON, in place, where a literal of the same type and value can be written.

    Elsewhere a literal can have another meaning: ``ORDER BY 1`` is a position.
    """
    if not arguments:
        return
    named = (
        dict(arguments)
        if isinstance(arguments, Mapping)
        else {positional_name(number): value for number, value in enumerate(arguments, 1)}
    )
    for marker in list(tree.find_all(exp.Placeholder)):
        text = _literal(named.get(marker.name))
        if text is not None and _is_in_condition(marker):
            marker.replace(parse_expression(text).copy())


def _is_in_condition(marker: exp.Expr) -> bool:
    clause = marker.find_ancestor(exp.Where, exp.Join, exp.Query, exp.Group, exp.Order, exp.Having, exp.Window)
    return isinstance(clause, exp.Where | exp.Join)


def _literal(value: object) -> str | None:
    """Return a literal in parentheses that Spark reads like the argument, None if there is none."""
    match value:
        case bool():
            return None
        case int() if -(1 << 63) < value < 1 << 63:
            # -2147483648 is an INT as an argument, but the negative of a BIGINT as text
            return None if value == -(1 << 31) else f"({value})" if value < 0 else str(value)
        case float() if math.isfinite(value) and 1e-99 < abs(value) < 1e99:
            return f"({value:.17E})" if value < 0 else f"{value:.17E}"
        case datetime.timedelta():
            micros = value // datetime.timedelta(microseconds=1)
            sign = "-" if micros < 0 else ""
            return f"INTERVAL '{sign}{abs(micros) // 1_000_000}.{abs(micros) % 1_000_000:06d}' SECOND"
    return None
