"""Scaling by load (003 section 5): the number of a join's units follows how much they hold. Off by default.

The policy is the paper's two-phase protocol without its migration. From the load that units report it derives how many
there should be, and acts only after several equal decisions. A query then stops after its running micro-batch and
restarts with a new layout (`operators.state.layout`), under which no row has to move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from ..errors import InvalidSettingError
from ..settings import SCALING, SCALING_ENABLED, value

_NAMES = {"capacity": "unitBytes", "most": "maxUnits"}


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """When to change the number of units.

    Parameters
    ----------
    capacity
        Bytes of state that a unit should hold at most (the paper's C).
    upper, lower
        Used shares of the capacity over all units: above `upper` there are too few units, below `lower` too many.
    target
        The used share after a change.
    decisions
        How many micro-batches in a row must agree before anything happens.
    most
        The most units.
    """

    capacity: int = 256 << 20
    upper: float = 0.8
    lower: float = 0.3
    target: float = 0.6
    decisions: int = 3
    most: int = 64

    def __post_init__(self) -> None:
        for name in ("capacity", "decisions", "most"):
            if getattr(self, name) < 1:
                raise InvalidSettingError(setting(name), getattr(self, name), "it must be at least 1")
        if not 0 < self.lower < self.target < self.upper:
            values = f"{self.lower}, {self.target}, {self.upper}"
            raise InvalidSettingError(f"{SCALING}lower, target, upper", values, "each must be above the one before")

    @classmethod
    def from_settings(cls, get: Callable[[str], str | None]) -> ScalingPolicy | None:
        """Return the policy in a session's settings.

        Parameters
        ----------
        get
            Gives the value of a Spark setting, None where it is not set.

        Returns
        -------
        ScalingPolicy or None
            None if scaling is off.

        Raises
        ------
        InvalidSettingError
            A value is not of the kind that its setting takes.
        """
        if not value(get, SCALING_ENABLED):
            return None
        return cls(**{known.name: value(get, setting(known.name)) for known in fields(cls)})

    def settings(self) -> dict[str, Any]:
        """Return the equivalent settings, by their last names (``unitBytes``)."""
        return {setting(known.name).removeprefix(SCALING): getattr(self, known.name) for known in fields(self)}


def setting(name: str) -> str:
    """Return the Spark setting for a parameter of the policy."""
    return SCALING + _NAMES.get(name, name)


@dataclass(frozen=True, slots=True)
class Decision:
    """The policy's decision after one micro-batch.

    Parameters
    ----------
    batch
        The micro-batch.
    subgroup
        The number of the subgroup that is decided on (003 section 5: each by itself), None if there are none.
    units
        The number of its units before.
    load
        The used share of their capacity (the paper's tau).
    wanted
        The wanted number of units.
    streak
        How many micro-batches in a row wanted more, or fewer.
    confirmed
        Whether that is enough to act.
    """

    batch: int
    units: int
    load: float
    wanted: int
    streak: int
    confirmed: bool
    subgroup: int | None = None


class Scaler:
    """Applies a policy to the units of one join or subgroup, micro-batch by micro-batch.

    What is kept for ever does not shrink. Cells of a grid double and halve, for other numbers divide few dimensions.
    """

    def __init__(
        self, policy: ScalingPolicy, subgroup: int | None = None, *, shrinks: bool = True, doubles: bool = False
    ) -> None:
        self.policy, self.subgroup, self.shrinks, self.doubles = policy, subgroup, shrinks, doubles
        self._sign, self._streak = 0, 0

    def decide(self, batch: int, units: int, loads: Iterable[int], others: int = 0) -> Decision:
        """Decide after a micro-batch.

        Parameters
        ----------
        batch, units
            The micro-batch, and the units in it.
        loads
            The bytes that each unit holds, including retired ones.
        others
            Units of other subgroups.
        """
        policy, total = self.policy, sum(loads)
        load, wanted = total / (units * policy.capacity), units
        if load > policy.upper or (load < policy.lower and self.shrinks):
            wanted = max(math.ceil(total / (policy.target * policy.capacity)), 1)
            most = max(policy.most - others, 1)
            if self.doubles:
                wanted, most = 1 << (wanted - 1).bit_length(), 1 << most.bit_length() - 1
            wanted = min(wanted, most)
            if (wanted > units) != (load > policy.upper):  # limited, or rounded back to the current number
                wanted = units
        sign = (wanted > units) - (wanted < units)
        self._streak = self._streak + 1 if sign and sign == self._sign else abs(sign)
        self._sign = sign
        confirmed = self._streak >= policy.decisions
        decision = Decision(batch, units, load, wanted, self._streak, confirmed, self.subgroup)
        if decision.confirmed:
            self._sign, self._streak = 0, 0
        return decision
