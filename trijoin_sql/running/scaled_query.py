"""A running query whose units follow its load: it watches, and starts the query again with other units."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ..errors import InvalidSettingError
from ..settings import SCALING_ENABLED
from ..spark.flags import settings_of
from .known_joins import known_join
from .layouts import want_units
from .metrics import slots_of
from .scaling import Decision, Scaler, ScalingPolicy
from .stopping import end_after_batch, failure

#: Seconds between two checks of the query.
POLL = 0.2

#: Decisions kept for each join.
_KEPT = 100


def scaling_policy(spark: SparkSession) -> ScalingPolicy | None:
    """Return the policy of a session, None if scaling is off.

    Raises
    ------
    InvalidSettingError
        A setting is wrong, or the session is one of Spark Connect.
    """
    policy = ScalingPolicy.from_settings(settings_of(spark))
    if policy is not None and not hasattr(spark, "_jsparkSession"):
        raise InvalidSettingError(SCALING_ENABLED, "true", "on Spark Connect the units of a query cannot change")
    return policy


class ScaledQuery:
    """A streaming query that restarts with more units, or fewer, when its policy says so.

    Parameters
    ----------
    spark
        The session.
    start
        Starts the query, each time on the same checkpoint.
    policy
        When to change the units; None for never.

    Attributes
    ----------
    query
        The query that runs now; another object after a change. Its ``stop`` is that of this object.
    restarts
        The number of restarts.
    """

    def __init__(
        self, spark: SparkSession, start: Callable[[], StreamingQuery], policy: ScalingPolicy | None = None
    ) -> None:
        self._spark, self._start, self.policy = spark, start, policy
        self._stopped = False
        self.query = self._run()
        self.restarts = 0
        self._batch = -1
        self._ending: Any = None
        self._wanted: dict[str, tuple[int, ...]] = {}
        self._scalers: dict[tuple[str, int | None], Scaler] = {}
        self._loads: dict[str, dict[int, tuple[int | None, int]]] = {}
        self._decisions: dict[str, deque[Decision]] = {}

    def _run(self) -> StreamingQuery:
        query = self._start()
        self._stop_run = query.stop
        vars(query)["stop"] = self.stop  # else one that is stopped in the middle of a change would be started again
        return query

    @property
    def active(self) -> bool:
        """Whether it runs, or is between two runs."""
        return self._ending is not None or self.query.isActive

    def __str__(self) -> str:
        last = {(name, one.subgroup): one for name, said in self._decisions.items() for one in said}
        return ", ".join(f"{one.wanted} units at a load of {one.load:.0%} in {one.units}" for one in last.values())

    def settle(self) -> bool:
        """Give up a change that is under way.

        Returns
        -------
        bool
            Whether its last micro-batch is over.
        """
        if self._ending is None or self._ending is self.query or not self._ending.isAlive():
            self._ending = None
            return True
        return False

    @property
    def decisions(self) -> dict[str, tuple[Decision, ...]]:
        """By join: what the policy said, oldest first."""
        return {name: tuple(said) for name, said in self._decisions.items()}

    def settings(self) -> dict[str, Any]:
        """Return the settings ``spark.trijoin.scaling.*`` that it follows, by their last names."""
        return {} if self.policy is None else self.policy.settings()

    def to_dict(self) -> dict[str, list[dict[str, Any]]]:
        """Return the decisions as plain data."""
        return {name: [asdict(one) for one in said] for name, said in self._decisions.items()}

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 (PySpark's name)
        """Watch until the query ends, or for a limited time.

        Parameters
        ----------
        timeout
            Seconds to watch; None for as long as it runs.

        Returns
        -------
        bool
            Whether it has ended.

        Raises
        ------
        StreamingQueryException
            The query failed.
        """
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float)):
            raise TypeError(f"awaitTermination() takes seconds as a number, not {timeout!r}")
        end = None if timeout is None else time.monotonic() + timeout
        while self.active:
            if end is not None and time.monotonic() >= end:
                return False
            self.look()
            time.sleep(POLL)
        self.query.awaitTermination()
        return True

    def stop(self) -> None:
        """Stop the query, and do not restart it; also in the middle of a restart, from wherever this is called."""
        self._stopped, self._ending = True, None
        self._stop_run()

    def look(self) -> bool:
        """Read the last micro-batch, and continue a change that is under way.

        Returns
        -------
        bool
            Whether the query started again.
        """
        if self._ending is not None:
            return self._go_on()
        progress: Any = self.query.lastProgress if self.policy is not None else None
        if progress is None or progress.batchId <= self._batch:
            return False
        self._batch = progress.batchId
        wanted = self._decide(progress)
        if wanted and self.query.isActive and not self._stopped:
            self._wanted = wanted
            self._ending = end_after_batch(self._spark, self.query) or self.query
        return False

    def _go_on(self) -> bool:
        """Start the query again once its last micro-batch is over."""
        ending = self._ending
        if ending is self.query:  # not ours to end, or not as we know it: stop it while it waits for rows
            if self.query.isActive and not self.query.status["isTriggerActive"]:
                self._stop_run()
            if self.query.isActive:
                return False
        elif ending is None or ending.isAlive():  # it may have been stopped in this moment
            return False
        self._ending = None
        if self._stopped or failure(self.query) is not None:
            return False
        before = self.query
        want_units(before, self._wanted)
        try:
            self.query = self._run()
        finally:
            want_units(before, {})  # it did not start: a later start requests its own units
        if self._stopped:  # meanwhile
            self._stop_run()
        self.restarts += 1
        return True

    def _decide(self, progress: Any) -> dict[str, tuple[int, ...]]:
        """Return the wanted units, by join and subgroup, where the policy has decided."""
        assert self.policy is not None
        wanted = {}
        for key, row in (progress.observedMetrics or {}).items():
            spec = known_join(key)
            about = key, str(progress.id), int(progress.batchId)
            slots = slots_of(*about, row.asDict()) if spec is not None else []
            if spec is None or not spec.may_change or not slots:
                continue
            in_cells = spec.pivot is not None
            if in_cells and slots[0]["slots"] > slots[0]["units"]:  # most rows are kept twice until the change is over
                continue
            loads = self._loads.setdefault(key, {})
            loads.update({slot["slot"]: (slot.get("subgroup"), slot["state_bytes"]) for slot in slots})
            sizes = slots[0].get("subgroups", [slots[0]["units"]])
            said = []
            for number, units in enumerate(sizes):
                subgroup = number if "subgroups" in slots[0] else None
                scaler = self._scalers.setdefault(
                    (key, subgroup), Scaler(self.policy, subgroup, shrinks=spec.bounded, doubles=in_cells)
                )
                held = [size for owner, size in loads.values() if owner == subgroup]
                said.append(scaler.decide(progress.batchId, units, held, sum(sizes) - units))
            self._decisions.setdefault(spec.name, deque(maxlen=_KEPT)).extend(said)
            if any(one.confirmed for one in said):
                wanted[spec.name] = tuple(one.wanted if one.confirmed else one.units for one in said)
        return wanted
