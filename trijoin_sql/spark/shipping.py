"""Sends our operators to the executors: a cluster needs only what PySpark needs there, and nothing of ours.

The driver sends its workers the modules that they load, in its own version, as a file of the Spark context.
"""

from __future__ import annotations

import logging
import os
import py_compile
import re
import tempfile
import zipfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

_log = logging.getLogger("trijoin_sql")

#: The file, one for each context. Its name has no version: a driver that itself runs from a zip file knows none.
NAME = "trijoin_sql-workers.zip"

#: The modules that workers load, by package; None for all. They import PySpark, pyarrow, NumPy and pandas, no parser.
MODULES: Mapping[str, tuple[str, ...] | None] = {
    "trijoin_sql": ("__init__.py", "errors.py"),
    "trijoin_sql.operators": None,
    **{
        f"trijoin_sql.operators.{room}": None
        for room in ("batches", "kernels", "results", "schemes", "state", "store", "task")
    },
}


def ship(context: Any) -> None:
    """Send the package to the executors of a cluster, once; it has precedence over one installed there."""
    if re.match(r"local(\[|$)", str(context.master)):  # workers run on this machine; local-cluster stands for a cluster
        return
    if NAME in context._python_includes:
        return
    path = Path(tempfile.mkdtemp(prefix="trijoin-ship-", dir=context._temp_dir), NAME)  # Spark serves it from there
    write_zip(path)
    context.addPyFile(str(path))
    # A query of transformWithState also starts a worker on the driver's machine, by the Python that executors have; it
    # knows no files, only this variable. Executors ignore a path that they do not have.
    before = context.environment.get("PYTHONPATH")
    context.environment["PYTHONPATH"] = str(path) if before is None else f"{before}{os.pathsep}{path}"
    _log.info("sent to the executors: %s, %d KiB", NAME, path.stat().st_size >> 10)


def write_zip(path: Path) -> None:
    """Write `MODULES` into a zip file that Python imports from.

    Beside each module is its bytecode, so that a worker of this version of Python does not compile it at every start;
    other versions ignore it.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, tempfile.TemporaryDirectory() as scratch:
        bytecode = Path(scratch, "module.pyc")
        source = Path(scratch, "module.py")
        for package, names in MODULES.items():
            folder = resources.files(package)
            for name in names or sorted(module.name for module in folder.iterdir() if module.name.endswith(".py")):
                inside = f"{package.replace('.', '/')}/{name}"
                source.write_bytes(folder.joinpath(name).read_bytes())
                unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
                py_compile.compile(str(source), str(bytecode), inside, doraise=True, invalidation_mode=unchecked)
                archive.write(source, inside)
                archive.write(bytecode, f"{inside}c")
