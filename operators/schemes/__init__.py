"""Join schemes, one module each; this table says how each of them runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..spec import JoinSpec
from .base import Slot
from .closest import ClosestSlot
from .iterative import IterativeSlot
from .outer import OuterSlot
from .routing import TO_CELLS, TO_GROUPS, Routing
from .semi_symmetric import FirstStageSlot, SecondStageSlot
from .symmetric import SymmetricSlot
from .tree import TreeSlot

SlotMaker = Callable[[JoinSpec, int], Slot]


@dataclass(frozen=True, slots=True)
class Scheme:
    """How a scheme runs.

    Parameters
    ----------
    routing
        How rows find the slots of the first stage.
    stages
        For each stage what makes the slot with a number.
    """

    routing: Routing
    stages: Callable[[JoinSpec], tuple[SlotMaker, ...]]


def _tree_stages(spec: JoinSpec) -> tuple[SlotMaker, ...]:
    return tuple(partial(TreeSlot, stage=stage) for stage in range(len(spec.streams) - 1))


def _cell_stages(spec: JoinSpec) -> tuple[SlotMaker, ...]:
    if spec.join == "inner":
        return (partial(IterativeSlot, stores_all=True),)
    return (OuterSlot if spec.closest is None else ClosestSlot,)


SCHEMES: dict[str, Scheme] = {
    "symmetric": Scheme(TO_GROUPS, lambda _: (SymmetricSlot,)),
    "semi_symmetric": Scheme(TO_GROUPS, lambda _: (FirstStageSlot, SecondStageSlot)),
    "biclique": Scheme(TO_GROUPS, lambda _: (partial(IterativeSlot, stores_all=False),)),
    "matrix": Scheme(TO_CELLS, _cell_stages),
    "tree": Scheme(TO_GROUPS, _tree_stages),
}
