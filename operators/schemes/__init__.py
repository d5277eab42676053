"""Join schemes, one module each; this table is the only place that knows them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..spec import JoinSpec
from .base import Slot
from .iterative import IterativeSlot
from .routing import Router, broadcast, grid
from .semi_symmetric import FirstStageSlot, SecondStageSlot
from .symmetric import SymmetricSlot


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a scheme runs.

    Parameters
    ----------
    route
        Which slots of the first stage a row goes to.
    stages
        For each stage what makes the slot with a number.
    """

    route: Callable[[JoinSpec], Router]
    stages: tuple[Callable[[JoinSpec, int], Slot], ...]


def _own(spec: JoinSpec, slot: int) -> Slot:
    return IterativeSlot(spec, slot, stores_all=False)


def _all(spec: JoinSpec, slot: int) -> Slot:
    return IterativeSlot(spec, slot, stores_all=True)


SCHEMES: dict[str, Scheme] = {
    "symmetric": Scheme(broadcast, (SymmetricSlot,)),
    "semi_symmetric": Scheme(broadcast, (FirstStageSlot, SecondStageSlot)),
    "biclique": Scheme(broadcast, (_own,)),
    "matrix": Scheme(grid, (_all,)),
}
