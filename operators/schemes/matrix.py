"""The cells of a grid (the join matrix): what runs in one of them depends on the kind of join."""

from __future__ import annotations

from functools import partial

from ..spec import JoinSpec
from .base import Scheme, SlotMaker
from .closest import ClosestSlot
from .iterative import IterativeSlot
from .mixed import MixedSlot
from .outer import OuterSlot
from .routing import TO_CELLS


def _stages(spec: JoinSpec) -> tuple[SlotMaker, ...]:
    if spec.join == "inner":
        return (partial(IterativeSlot, stores_all=True),)
    if spec.join == "mixed":
        return (MixedSlot,)
    return (OuterSlot if spec.closest is None else ClosestSlot,)


SCHEMES = {"matrix": Scheme(TO_CELLS, _stages)}
