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


def check_named(script: Script, word: Word) -> tuple[str, str]:
    """Return the module and the name in ``module:name``.

    Raises
    ------
    JobError
        It has another form.
    """
    module_name, colon, name = word.text.partition(":")
    if not colon or not module_name or not name.isidentifier():
        script.fail(word.start, f"{word.text!r} is not of the form 'module:name'")
    return module_name, name


def _load(script: Script, word: Word, kind: str) -> Any:
    """Import what a user names as ``module:name``.

    Modules are looked for where Python looks, then beside the job file and in the current folder: a file there called
    ``json.py`` does not take the place of Python's.
    """
    module_name, name = check_named(script, word)
    for folder in (str(Path(script.path).absolute().parent), str(Path.cwd())):
        if folder not in sys.path:
            sys.path.append(folder)
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name not in (module_name, module_name.partition(".")[0]):
            script.fail(word.start, f"{module_name} does not import: there is no module named {error.name}")
        hint = "modules are looked for where Python looks, beside the job file, and in the current folder"
        script.fail(word.start, f"there is no module named {error.name}", hint)
    except Exception as error:
        script.fail(word.start, f"{module_name} does not import: {type(error).__name__}: {error}")
    function = getattr(module, name, None)
    if function is None:
        names = [known for known, value in vars(module).items() if callable(value) and not known.startswith("_")]
        place = getattr(module, "__file__", None) or "a module of Python itself"
        script.fail(word.start, f"{module_name} ({place}) has no {kind} {name}", did_you_mean(name, names))
    return function


def _takes_two(function: Callable[..., Any]) -> bool:
    try:
        signature(function).bind(None, 0)
    except TypeError:
        return False
    except ValueError:  # a C function without a signature
        return True
    return True
