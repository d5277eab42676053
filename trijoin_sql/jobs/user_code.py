"""What users write in Python for a job: functions of micro-batches, and data sources."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from ..rewriter.sql.clauses import Word
from ..rewriter.sql.similar import did_you_mean
from .job_text import Script


def load_function(script: Script, word: Word) -> Callable[[Any, int], None]:
    """Import the function that a foreachBatch sink names as ``module:name``.

    Raises
    ------
    JobError
        The module does not import, or has no such function.
    """
    function = _load(script, word, "function")
    if not callable(function):
        script.fail(word.start, f"{word.text} is no function: a function of a DataFrame and a batch's number is needed")
    if not _takes_two(function):
        script.fail(word.start, f"{word.text} does not take two arguments, a DataFrame and a batch's number")
    called: Callable[[Any, int], None] = function
    return called


def load_source(script: Script, word: Word) -> Any:
    """Import the data source (a class) that ``USING python`` names as ``module:Class``.

    Raises
    ------
    JobError
        The module does not import, or has no such class.
    """
    from pyspark.sql.datasource import DataSource

    source = _load(script, word, "class")
    if not (isinstance(source, type) and issubclass(source, DataSource)):
        script.fail(
            word.start, f"{word.text} is no data source: a subclass of pyspark.sql.datasource.DataSource is needed"
        )
    return source


def _load(script: Script, word: Word, kind: str) -> Any:
    """Import what a user names as ``module:name``.

    Modules are looked for beside the job file and in the current folder, then where Python looks.
    """
    module_name, colon, name = word.text.partition(":")
    if not colon or not module_name or not name.isidentifier():
        script.fail(word.start, f"{word.text!r} is not of the form 'module:name'")
    for folder in (str(Path.cwd()), str(Path(script.path).absolute().parent)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        hint = "modules are looked for beside the job file, in the current folder, and where Python looks"
        script.fail(word.start, f"there is no module named {error.name}", hint)
    except Exception as error:
        script.fail(word.start, f"{module_name} does not import: {type(error).__name__}: {error}")
    function = getattr(module, name, None)
    if function is None:
        names = [known for known, value in vars(module).items() if callable(value) and not known.startswith("_")]
        script.fail(word.start, f"{module_name} has no {kind} {name}", did_you_mean(name, names))
    return function


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        signature(function).bind(None, 0)
    except TypeError:
        return False
    except ValueError:  # a C function without a signature
        return True
    return True
