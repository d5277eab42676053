"""Join schemes: a module of this folder that has `SCHEMES` says in it how one or more of them run."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from .base import Scheme

_MODULES = (import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__))

#: By name, as `rewriter.plan.schemes` calls them in `runs_as`.
SCHEMES: dict[str, Scheme] = {
    name: scheme for module in _MODULES for name, scheme in getattr(module, "SCHEMES", {}).items()
}
