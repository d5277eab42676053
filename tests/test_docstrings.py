"""What users call is documented: every parameter, and what comes back."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import trijoin_sql
from trijoin_sql.spark.frames import HOW, How

#: The names of the package.
PUBLIC: list[Any] = [getattr(trijoin_sql, name) for name in trijoin_sql.__all__ if name != "__version__"]


def gaps(call: Callable[..., Any], text: str) -> Iterator[str]:
    """Say which parameters a docstring leaves out, and whether it says nothing of what comes back."""
    signature = inspect.signature(call)
    described = text.partition("Parameters\n")[2]
    for name in signature.parameters:
        private = name in ("self", "cls") or name.startswith("_")
        if not private and not re.search(rf"^(\w+, )*{name}(, \w+)*( : .*)?$", described, re.M):
            yield f"the parameter {name}"
    returned = signature.return_annotation
    silent = inspect.isclass(call) or returned in (None, "None", inspect.Signature.empty)
    if not silent and "Returns\n" not in text and not text.startswith("Return "):
        yield "what it returns"


@pytest.mark.parametrize("thing", PUBLIC, ids=lambda thing: thing.__name__)
def test_public_names_are_documented(thing: Any) -> None:
    found = [f"{thing.__name__}: {gap}" for gap in gaps(thing, inspect.getdoc(thing) or "")]
    for name, member in vars(thing).items() if inspect.isclass(thing) else ():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        text = inspect.getdoc(member) or ""
        if name.startswith("_") or not (inspect.isfunction(function) or isinstance(member, property)):
            continue
        if not text:
            found.append(f"{thing.__name__}.{name}")
        elif inspect.isfunction(function):
            found += [f"{thing.__name__}.{name}: {gap}" for gap in gaps(function, text)]
    assert not found


def returned(call: Callable[..., Any]) -> set[str]:
    """Return the names of our own classes that a function returns, be it in a list or beside None."""
    if isinstance(call, property):
        call = call.fget  # type: ignore[assignment]
    text = str(inspect.signature(call).return_annotation)
    ours = {word for word in re.findall(r"\w+", text) if word in vars(sys.modules[call.__module__])}
    classes = {word: vars(sys.modules[call.__module__])[word] for word in ours}
    return {word for word, one in classes.items() if inspect.isclass(one) and one.__module__.startswith("trijoin_sql")}


def test_what_public_methods_return_is_public() -> None:
    """And so has a name at the top, which is the one that docs/api.md and the pages in docs/api/ use."""
    found: set[str] = set()
    for thing in PUBLIC:
        calls = [one for name, one in vars(thing).items() if name[0] != "_"] if inspect.isclass(thing) else [thing]
        calls = [one.__func__ if isinstance(one, classmethod) else one for one in calls]
        found.update(*(returned(one) for one in calls if inspect.isfunction(one) or isinstance(one, property)))
    assert {"Metrics", "Explanation", "ScaledQuery", "LateRows"} <= found
    assert found <= set(trijoin_sql.__all__)
    docs = Path(__file__).parent.parent / "docs"
    pages = "".join(page.read_text("utf-8") for page in (docs / "api.md", *docs.glob("api/*.md")))
    named = re.findall(r"auto\w+:: trijoin_sql\.(\S+)", pages)
    assert sorted(named) == sorted({*trijoin_sql.__all__} - {"__version__"})


def test_the_words_for_how_are_those_that_are_taken() -> None:
    assert {word.replace("_", "") for word in get_args(How)} == set(HOW)


def test_no_file_names_a_document_that_is_not_there() -> None:
    """A reader of the repository has nothing else."""
    root = Path(__file__).parent.parent
    files = [
        path for name in ("rewriter", "operators", "trijoin_sql", "queries") for path in (root / name).rglob("*.py")
    ]
    assert [str(path) for path in files if re.search(r"\bDESIGN\b|\bPAPERS\b|\bTRAPS\b", path.read_text("utf-8"))] == []
