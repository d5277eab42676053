"""TriJoin SQL: multi-way theta joins on Spark streams, in plain SQL.

Importing the package loads neither PySpark nor sqlglot: each name is fetched from its module when it is first used. The
names in `__all__` are public, and so are the command line and the settings. All else, and every module, is private: it
may change in any version.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import CheckpointDamagedError as CheckpointDamagedError
    from .errors import CheckpointMismatchError as CheckpointMismatchError
    from .errors import CheckpointVersionError as CheckpointVersionError
    from .errors import InvalidHintError as InvalidHintError
    from .errors import InvalidSettingError as InvalidSettingError
    from .errors import JobError as JobError
    from .errors import JoinOverflowError as JoinOverflowError
    from .errors import NotProvenError as NotProvenError
    from .errors import PlanError as PlanError
    from .errors import SinkMismatchError as SinkMismatchError
    from .errors import SqlSyntaxError as SqlSyntaxError
    from .errors import TriJoinError as TriJoinError
    from .errors import UnavailableError as UnavailableError
    from .errors import UnsupportedQueryError as UnsupportedQueryError
    from .explain import Explanation as Explanation
    from .extension import disable as disable
    from .extension import enable as enable
    from .running.late import LateRows as LateRows
    from .running.late_rows import with_late_rows as with_late_rows
    from .running.metrics import BatchCounters as BatchCounters
    from .running.metrics import InputState as InputState
    from .running.metrics import Metrics as Metrics
    from .running.metrics_server import MetricsServer as MetricsServer
    from .running.metrics_server import metrics_server as metrics_server
    from .running.recovery import recover_file_sink as recover_file_sink
    from .running.recovery import recover_foreach_batch as recover_foreach_batch
    from .running.scaled_query import ScaledQuery as ScaledQuery
    from .running.scaling import Decision as Decision
    from .running.scaling import ScalingPolicy as ScalingPolicy
    from .running.vanished import Vanished as Vanished
    from .session import TriJoinSession as TriJoinSession
    from .spark.config import configure as configure

    __version__: str

_HOME = {
    "configure": ".spark.config",
    "TriJoinSession": ".session",
    "enable": ".extension",
    "disable": ".extension",
    "metrics_server": ".running.metrics_server",
    "recover_file_sink": ".running.recovery",
    "recover_foreach_batch": ".running.recovery",
    "with_late_rows": ".running.late_rows",
    "Explanation": ".explain",
    "Metrics": ".running.metrics",
    "BatchCounters": ".running.metrics",
    "InputState": ".running.metrics",
    "LateRows": ".running.late",
    "Vanished": ".running.vanished",
    "ScaledQuery": ".running.scaled_query",
    "Decision": ".running.scaling",
    "ScalingPolicy": ".running.scaling",
    "MetricsServer": ".running.metrics_server",
    "TriJoinError": ".errors",
    "SqlSyntaxError": ".errors",
    "UnsupportedQueryError": ".errors",
    "NotProvenError": ".errors",
    "UnavailableError": ".errors",
    "InvalidHintError": ".errors",
    "InvalidSettingError": ".errors",
    "PlanError": ".errors",
    "CheckpointMismatchError": ".errors",
    "CheckpointDamagedError": ".errors",
    "CheckpointVersionError": ".errors",
    "SinkMismatchError": ".errors",
    "JobError": ".errors",
    "JoinOverflowError": ".errors",
}
__all__ = [*_HOME, "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("trijoin-sql")
    elif name in _HOME:
        value = getattr(import_module(_HOME[name], __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
