"""A daemon of Python workers that has imported what tasks of ours need before it forks the first of them.

Spark starts one daemon for all workers of an executor, and each worker is a fork of it. PySpark's own daemon imports
nothing but PySpark, so every worker imports pandas, Arrow and our operators by itself, in the first micro-batch of a
query. Here they are imported once, and their memory is shared.

Spark runs this module by its name (``spark.python.daemon.module``), only where `trijoin_sql.spark.config` knows that
the workers' Python has our packages.
"""

from __future__ import annotations

import gc
from contextlib import suppress
from importlib import import_module

#: What tasks of ours load, and PySpark for them: a dispatching task, a joining one, and the first call of each.
MODULES = (
    "pyspark.worker",
    "pandas",
    "pyarrow.compute",
    "pyspark.sql.pandas.types",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "trijoin_sql.operators.task.dispatch",
    "trijoin_sql.operators.task.stage",
)


def main() -> None:
    """Import, and go on as PySpark's daemon."""
    from pyspark import daemon

    for module in MODULES:
        with suppress(ImportError):  # the task that needs it says so
            import_module(module)
    gc.collect()
    gc.freeze()  # no collection of a worker walks over them, which would also copy their pages
    daemon.manager()


if __name__ == "__main__":
    main()
