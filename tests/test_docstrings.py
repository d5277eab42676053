"""What users call is documented: every parameter, and what comes back."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import trijoin_sql
from trijoin_sql.explain import Explanation
from trijoin_sql.running.metrics import BatchCounters, InputState, Metrics
from trijoin_sql.running.metrics_server import MetricsServer
from trijoin_sql.running.scaled_query import ScaledQuery
from trijoin_sql.running.scaling import Decision, ScalingPolicy

#: The names of the package, and the classes of what their methods return.
PUBLIC: list[Any] = [
    *(getattr(trijoin_sql, name) for name in trijoin_sql.__all__ if name != "__version__"),
    *(Explanation, Metrics, BatchCounters, InputState, ScaledQuery, MetricsServer, Decision, ScalingPolicy),
]


def gaps(call: Callable[..., Any], text: str) -> Iterator[str]:
    """Say which parameters a docstring leaves out, and whether it says nothing of what comes back."""
    signature = inspect.signature(call)
    described = text.partition("Parameters\n")[2]
    for name in signature.parameters:
        if name not in ("self", "cls") and not re.search(rf"^(\w+, )*{name}(, \w+)*( : .*)?$", described, re.M):
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


def test_no_file_names_a_document_that_is_not_there() -> None:
    """A reader of the repository has nothing else."""
    root = Path(__file__).parent.parent
    files = [
        path for name in ("rewriter", "operators", "trijoin_sql", "queries") for path in (root / name).rglob("*.py")
    ]
    assert [str(path) for path in files if re.search(r"\bDESIGN\b|\bPAPERS\b|\bTRAPS\b", path.read_text("utf-8"))] == []
