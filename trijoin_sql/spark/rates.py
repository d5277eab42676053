"""How many rows a second streams bring, and which pairs of them match: declared, or observed in a session's queries."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from math import inf
from typing import Any

from ..errors import InvalidSettingError
from ..operators.compile.logical_plans import Step, items, walk
from ..operators.recent import Recent
from ..rewriter.options import CostDefaults
from ..rewriter.plan.decision import Selectivity
from ..rewriter.sql.catalog import RATE_SETTING, declared, positive

#: The prefix of the settings for the share of pairs of rows that match, by kind of predicate.
SELECTIVITY = "spark.trijoin.selectivity."

#: The prefix of the settings for the weights of the cost model, and the weights (`rewriter.options.CostDefaults`).
COST = "spark.trijoin.cost."
WEIGHTS = ("taken", "sent", "compared", "listed", "stored", "stage", "unit")

#: Returns a session's setting, None if it is not set.
Setting = Callable[[str], "str | None"]

#: Micro-batches of a query that count for its observed rate, and the number of remembered queries.
_SEEN, _QUERIES = 100, 50

#: Pairs of relations that are remembered, and from how many pairs of rows on their share tells something.
_EDGES, _PAIRS = 200, 1000

#: Nodes of Spark's plans that put out the rows of their input, or fewer.
_THROUGH = ("Project", "Filter", "EventTimeWatermark", "CollectMetrics", "SubqueryAlias", "View")


def declared_rate(get: Setting, name: tuple[str, ...]) -> float | None:
    """Return the value of the setting ``spark.trijoin.rate.NAME``, None if it is not set.

    Parameters
    ----------
    get
        Returns a session's setting.
    name
        The parts of the relation's name; the setting has the same spelling, or small letters.

    Raises
    ------
    InvalidSettingError
        The value is not a number above 0.
    """
    key = RATE_SETTING + ".".join(name)
    for spelled in dict.fromkeys((key, key.lower())):
        text = get(spelled)
        if text is not None:
            return declared(spelled, text)
    return None


def cost_defaults(get: Setting) -> CostDefaults:
    """Return the assumptions of the cost model, with the settings of a session.

    These are the selectivities ``spark.trijoin.selectivity.KIND`` and the weights ``spark.trijoin.cost.NAME``.

    Parameters
    ----------
    get
        Returns a session's setting.

    Raises
    ------
    InvalidSettingError
        A value is not a share, or not a number above 0.
    """
    defaults = CostDefaults()
    known = dict(defaults.selectivity)
    for kind in known:
        text = get(SELECTIVITY + kind)
        if text is not None:
            share = positive(text)
            if share is None or share > 1:
                reason = "it takes the share of pairs that match, above 0 and up to 1"
                raise InvalidSettingError(SELECTIVITY + kind, text, reason)
            known[kind] = share
    weights: dict[str, Any] = {}
    for name in WEIGHTS:
        text = get(COST + name)
        if text is not None:
            weight = positive(text)
            if weight is None:
                raise InvalidSettingError(COST + name, text, "it takes a number of microseconds above 0")
            weights[name] = weight
    declared = tuple(known.items())
    if declared != defaults.selectivity:  # a declared value holds for any length of history
        defaults = replace(defaults, selectivity=declared, partners=inf)
    return replace(defaults, **weights) if weights else defaults


@dataclass(frozen=True, slots=True)
class PlanSource:
    """A streaming source in a plan.

    Parameters
    ----------
    names
        The relations that bring its rows, in small letters, outermost first, without those that join or aggregate.
    reads
        How often the plan reads it.
    """

    names: tuple[str, ...]
    reads: int = 1


def sources_in(plan: Any) -> list[PlanSource]:
    """Return the streaming sources of a plan, in the order of Spark's progress reports.

    Parameters
    ----------
    plan
        An analysed plan of a classic session.
    """
    found: dict[Any, PlanSource] = {}  # equal nodes are one source
    for step in walk(plan):
        if step.name.startswith("Streaming") and "Relation" in step.name:  # of five kinds, and of later ones
            before = found.get(step.node, PlanSource((), 0))
            found[step.node] = PlanSource(tuple(dict.fromkeys((*before.names, *_names(step)))), before.reads + 1)
    return list(found.values())


def _names(source: Step) -> list[str]:
    """Return the names of the relations right above a source, outermost first."""
    names: list[str] = []
    for step in takewhile(lambda one: one.name in _THROUGH, reversed(source.above)):
        if step.name == "View":
            names.append(step.node.desc().identifier().unquotedString())
        elif step.name == "SubqueryAlias" and (qualifier := items(step.node.identifier().qualifier())):
            names.append(".".join([*qualifier, step.node.alias()]))  # without one it may be an alias in the query
    return [name.lower() for name in reversed(names)]


def rate_of(rates: Mapping[str, float], name: tuple[str, ...]) -> float | None:
    """Return the rate of a relation; its name may lack the catalog and the schema of a known name."""
    text = ".".join(name).lower()
    if text in rates:
        return rates[text]
    return next((rows for known, rows in rates.items() if known.endswith(f".{text}")), None)


class ObservedRates:
    """Observed rates of a session's queries: rows a second of each relation that brings a source's rows."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sources = Recent[str, list[PlanSource]](_QUERIES)
        self._seen = Recent[str, deque[tuple[float, list[float]]]](_QUERIES)

    def started(self, query_id: str, sources: list[PlanSource]) -> None:
        """Record the sources of a query's plan."""
        with self._lock:
            self._sources[query_id] = sources
            self._seen[query_id] = deque(maxlen=_SEEN)

    def progressed(self, progress: Mapping[str, Any]) -> None:
        """Record a progress report of Spark, as plain data."""
        reported = progress.get("sources") or []
        with self._lock:
            sources = self._sources.get(progress["id"], [])
            if len(sources) != len(reported):
                return  # not one of our queries, or its plan is not as we know it
            begun = datetime.fromisoformat(progress["timestamp"]).timestamp()
            rows = [float(one.get("numInputRows") or 0) / of.reads for of, one in zip(sources, reported, strict=True)]
            self._seen[progress["id"]].append((begun, rows))

    def sources(self, query_id: str) -> list[PlanSource]:
        """Return the sources of a query's plan, in the order of Spark's reports; none of a query that is not known."""
        with self._lock:
            return self._sources.get(query_id, [])

    def rates(self) -> dict[str, float]:
        """Return rows a second by relation; if several queries read a relation, those of the last one.

        The first micro-batch of a query does not count: it reads the backlog. Rows of the other ones came since the
        first one began.
        """
        found: dict[str, float] = {}
        with self._lock:
            for query_id, sources in self._sources.items():
                seen = list(self._seen[query_id])
                seconds = seen[-1][0] - seen[0][0] if seen else 0.0
                for at, source in enumerate(sources):
                    rows = sum(batch[1][at] for batch in seen[1:])
                    if seconds > 0 and rows > 0:
                        found.update(dict.fromkeys(source.names, float(f"{rows / seconds:.3g}")))
        return found


class ObservedShares:
    """What was counted in a session's queries: the share of the pairs of rows of two relations that match."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counted = Recent[tuple[str, ...], tuple[str, int, int]](_EDGES)

    def counted(self, run_id: str, selectivities: Iterable[Selectivity], edges: Mapping[str, int]) -> None:
        """Record what the slots of a join have counted in a micro-batch; a later run begins anew.

        Parameters
        ----------
        run_id
            Of the query.
        selectivities
            Those of the join's decision.
        edges
            Under ``r s pairs`` and ``r s found``: pairs of rows of two relations, and those that match.
        """
        with self._lock:
            for one in selectivities:
                pairs, found = (edges.get(f"{one.left} {one.right} {name}", 0) for name in ("pairs", "found"))
                run, *before = self._counted.get(one.key, (run_id, 0, 0))
                if pairs:
                    before = before if run == run_id else [0, 0]
                    self._counted[one.key] = run_id, before[0] + pairs, before[1] + found

    def shares(self) -> dict[tuple[str, ...], float]:
        """Return the share by what the conditions between two relations are known by, where enough pairs were there."""
        with self._lock:
            told = [(key, pairs, found) for key, (_, pairs, found) in self._counted.items() if pairs >= _PAIRS]
        return {key: float(f"{max(found, 1) / pairs:.3g}") for key, pairs, found in told}
