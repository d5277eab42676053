"""What TriJoin SQL keeps in a query's checkpoint beside Spark's own files: what the query is, and its units' layouts.

A listener hears of a query before its first micro-batch, in the query's own thread. There it compares the query with
the checkpoint, writes down the layout that the micro-batches from now on have, and only then tells it to the tasks, in
a local property that Spark hands on to every job of that thread. So a layout is durable before a micro-batch has it.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from .errors import CheckpointDamagedError, CheckpointMismatchError, CheckpointVersionError
from .jobs.stopping import no_further_batch
from .metrics import held_by_slot, join_keys
from .operators.layout import History, obstacle
from .operators.spec import JoinSpec
from .operators.state import difference
from .operators.task import LAYOUTS
from .rates import ObservedRates
from .rewriter.dialect import quote
from .rewriter.settings import Stored
from .scaling import ENABLED

_log = logging.getLogger("trijoin_sql")

#: The folder in the checkpoint's, and the version of what its files say.
FOLDER, VERSION = "trijoin", 1

_FILE = re.compile(r"joins-(\d+)\.json")

#: What cost chooses, by the names of a fingerprint's lines.
_CHOSEN = ("scheme", "units", "subgroups", "option grid", "option routing")

_numbers = itertools.count()
_specs: dict[str, JoinSpec] = {}
_listeners: dict[int, LayoutListener] = {}

#: Keys of the joins whose units cost chose: a checkpoint's number goes before.
_by_cost: set[str] = set()

#: Units that a query is to have from its next start on, by the query's id.
_wanted: dict[str, dict[str, int]] = {}


def next_number() -> int:
    """Return a number for a compiled statement that no other statement of this process has."""
    return next(_numbers)


@dataclass(frozen=True, slots=True)
class Join:
    """What a checkpoint knows of one join.

    Parameters
    ----------
    fingerprint
        What a query must be to go on with its state, a line each.
    history
        The layouts of its units.
    """

    fingerprint: str
    history: History

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"fingerprint": self.fingerprint, **self.history.to_dict()}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Join:
        """Return what is in plain data."""
        return cls(body["fingerprint"], History.from_dict(body))


def follow(saved: Sequence[Join], specs: Sequence[JoinSpec], units: Sequence[int], batch: int) -> list[Join]:
    """Return the joins of a query that starts on a checkpoint.

    Parameters
    ----------
    saved
        What the checkpoint says of its joins; nothing if it is new.
    specs, units
        The query's joins, and the units that each is to have.
    batch
        The first micro-batch that has not been planned. One that was planned and has not finished keeps its layout.

    Raises
    ------
    CheckpointMismatchError
        The checkpoint belongs to another query, or its units cannot change.
    """
    if not saved or not batch:
        starting = zip(specs, units, strict=True)
        return [
            Join(spec.fingerprint, History(((0, wanted if spec.elastic else spec.units),))) for spec, wanted in starting
        ]
    if len(saved) != len(specs):
        change = f"it was written by a query with {len(saved)} joins of streams, and this one has {len(specs)}"
        raise CheckpointMismatchError("of this query", change)
    joins = []
    for join, spec, wanted in zip(saved, specs, units, strict=True):
        if join.fingerprint != spec.fingerprint:
            raise CheckpointMismatchError("of this query", _difference(join, spec))
        history = join.history.changed(batch, wanted) if spec.elastic else join.history
        old = join.history.at(batch - 1).units
        why = obstacle(spec, old, wanted) if spec.elastic else None
        if why is not None:
            raise CheckpointMismatchError("of this query", f"units was {old} and is now {wanted}; {why}")
        joins.append(Join(spec.fingerprint, history))
    return joins


def _lines(fingerprint: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in fingerprint.splitlines() if ": " in line)


def _difference(join: Join, spec: JoinSpec) -> str:
    """Say what differs between a checkpoint's join and a query's, and how to keep what cost may have chosen anew."""
    text = difference(join.fingerprint, spec.fingerprint)
    old, new = _lines(join.fingerprint), _lines(spec.fingerprint)
    chosen = [name for name in ("scheme", "units") if old.get(name) != new.get(name)]
    if not chosen or any(old.get(name) != new.get(name) for name in old if name not in _CHOSEN):
        return text
    hints = [f"SCHEME('{old['scheme']}')"] + [f"UNITS({old['units']})" for _ in [0] if "units" in old]
    return f"{text}. If rates were declared since, the hint {', '.join(hints)} keeps what it has, as tj.resuming does"


def register(spark: SparkSession, specs: Mapping[str, JoinSpec], by_cost: Set[str] = frozenset()) -> None:
    """Make joins known to the listener of a session, and make sure that there is one. Not on Spark Connect.

    Parameters
    ----------
    spark
        The session.
    specs
        The joins by key.
    by_cost
        The keys of those whose units cost chose.
    """
    _specs.update(specs)
    _by_cost.update(by_cost)
    java: Any = getattr(spark, "_jsparkSession", None)
    if java is None or java.hashCode() in _listeners:
        return
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    listener = _listeners[java.hashCode()] = LayoutListener(spark)
    jvm: Any = spark._jvm
    java.streams().addListener(jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(listener))


def observed_rates(spark: SparkSession) -> dict[str, float]:
    """Return the rows a second that the queries of a session were seen to read, by relation. None on Spark Connect."""
    java: Any = getattr(spark, "_jsparkSession", None)
    listener = None if java is None else _listeners.get(java.hashCode())
    return {} if listener is None else listener.observed.rates()


def stored_joins(spark: SparkSession, checkpoint: str) -> tuple[Stored, ...]:
    """Return how a checkpoint stores the rows of its join groups, nothing if there is none yet.

    Raises
    ------
    CheckpointVersionError
        It was written by a later version.
    CheckpointDamagedError
        What it says of its joins cannot be read.
    """
    try:
        return read_stored(CheckpointFile(spark, checkpoint).read())
    except (ValueError, KeyError) as error:
        raise CheckpointDamagedError(checkpoint, f"what its folder {FOLDER} says cannot be read: {error}") from None


def read_stored(joins: Sequence[Join]) -> tuple[Stored, ...]:
    """Return how a checkpoint's joins store rows: each by itself, and those of an operator tree as one group besides.

    A node of a tree reads a stored result under the names of its members, joined by underscores. So does a query that
    calls a common table expression that: which of the two it is, the query that goes on with the checkpoint knows.
    """
    parts = [_lines(join.fingerprint) for join in joins]
    relations = [tuple(part["order of streams"].split(", ")) for part in parts]
    members = {tuple(sorted("_".join(names).split("_"))): at for at, names in enumerate(relations)}
    below = [{name: members.get(tuple(sorted(name.split("_")))) for name in names} for names in relations]
    nested = {at for inside in below for at in inside.values() if at is not None}

    def tree(at: int) -> tuple[str, tuple[str, ...]]:
        inner = {name: tree(one) for name, one in below[at].items() if one is not None and one != at}
        text = ", ".join(f"({inner[name][0]})" if name in inner else quote(name) for name in relations[at])
        leaves = [leaf for name in relations[at] for leaf in (inner[name][1] if name in inner else (name,))]
        return text, tuple(leaves)

    found, trees = [], []
    for at, (join, part) in enumerate(zip(joins, parts, strict=True)):
        units = int(part.get("units", join.history.entries[-1][1]))
        written = tuple(sorted(value for name, value in part.items() if name.startswith("condition between ")))
        found.append(Stored(relations[at], part["scheme"], units, None, written))
        text, leaves = tree(at)
        if at not in nested and len(leaves) > len(relations[at]):
            trees.append(Stored(leaves, "operator_tree", units, text, written))
    return (*found, *trees)


def known_join(key: str) -> JoinSpec | None:
    """Return a registered join."""
    return _specs.get(key)


def want_units(query: StreamingQuery, units: Mapping[str, int]) -> None:
    """Set the units that the joins of a query (by name) have from its next start on."""
    _wanted[query.id] = dict(units)


class CheckpointFile:
    """Our file in a checkpoint, through Spark's own file manager: on any file system, written whole or not at all.

    Each version is a file of its own, and the highest number counts: where a file system cannot rename one file over
    another, Spark's manager keeps the old one and says nothing.

    Parameters
    ----------
    spark
        The session.
    root
        The checkpoint's folder, as Spark resolved it.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._folder = jvm.org.apache.hadoop.fs.Path(f"{root}/{FOLDER}")
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        package = jvm.org.apache.spark.sql.execution.streaming.checkpointing
        self._manager = package.CheckpointFileManager.create(self._folder, conf)

    def _versions(self) -> list[int]:
        """Return the numbers of the files, in order."""
        if not self._manager.exists(self._folder):
            return []
        names = [status.getPath().getName() for status in self._manager.list(self._folder)]
        return sorted(int(found[1]) for name in names if (found := _FILE.fullmatch(name)))

    def _path(self, version: int) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._folder, f"joins-{version}.json")

    def read(self) -> list[Join]:
        """Return what the file says, nothing if there is none.

        Raises
        ------
        CheckpointVersionError
            It was written by a later version.
        """
        versions = self._versions()
        if not versions:
            return []
        stream = self._manager.open(self._path(versions[-1]))
        try:
            body = json.loads(bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)))
        finally:
            stream.close()
        if body["version"] > VERSION:
            told = f"its folder {FOLDER} has format {body['version']}, and this version reads formats up to {VERSION}"
            raise CheckpointVersionError(self.root, told)
        return [Join.from_dict(one) for one in body["joins"]]

    def write(self, joins: Sequence[Join]) -> None:
        """Replace what the file says."""
        self._manager.mkdirs(self._folder)
        versions = self._versions()
        stream = self._manager.createAtomic(self._path(versions[-1] + 1 if versions else 0), False)
        try:
            body = {"version": VERSION, "joins": [join.to_dict() for join in joins]}
            stream.write(json.dumps(body, indent=1).encode())
        except BaseException:
            stream.cancel()
            raise
        stream.close()
        for version in versions:
            self._manager.delete(self._path(version))


@dataclass(slots=True)
class Running:
    """A query that runs, by its id: the file of its checkpoint, its joins by key, and what its tasks are told."""

    file: CheckpointFile
    joins: dict[str, Join]
    properties: Any

    def tell(self) -> None:
        """Tell the tasks of jobs from now on."""
        told = {key: join.history.to_dict() for key, join in self.joins.items()}
        self.properties.setProperty(LAYOUTS, json.dumps(told))


class LayoutListener:
    """Spark's listener; it runs in the JVM's thread that calls it."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.running: dict[str, Running] = {}
        self.observed = ObservedRates()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 (Spark's name)
        """Compare, write down, tell."""
        try:
            self._start(str(event.id().toString()))
        except Exception:  # a query must not fail for a feature that it may not need; its tasks see what is missing
            _log.warning("the layouts of a query could not be read or written", exc_info=True)

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Take in what was read, and leave out retired slots that are empty."""
        try:
            progress = json.loads(event.progress().json())
            self.observed.progressed(progress)
            self._retire(progress["id"], progress)
        except Exception:
            _log.warning("a progress report could not be read", exc_info=True)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Forget the query."""
        self.running.pop(str(event.id().toString()), None)

    def _start(self, query_id: str) -> None:
        found = next((query for query in self.spark.streams.active if query.id == query_id), None)
        if found is None:
            return
        execution: Any = found._jsq.streamingQuery()
        plan = str(execution.analyzedPlan().toString())
        keys = join_keys(plan)
        if not keys:
            return
        self.observed.started(query_id, plan)
        specs = [_specs[key] for key in keys]
        file = CheckpointFile(self.spark, str(execution.resolvedCheckpointRoot()))
        properties: Any = self.spark._jsparkSession.sparkContext().getLocalProperties()
        planned = execution.offsetLog().getLatestBatchId()
        batch = int(planned.get()) + 1 if planned.isDefined() else 0
        try:
            saved = file.read()
            joins = follow(saved, specs, self._units(query_id, specs, saved), batch)
        except CheckpointMismatchError as error:
            difference_ = error.getMessageParameters()["difference"]
            told = {"checkpoint": file.root, "refused": difference_, "later": isinstance(error, CheckpointVersionError)}
            properties.setProperty(LAYOUTS, json.dumps(dict.fromkeys(keys, told)))
            self._refuse(found, str(type(error)(file.root, difference_)))
            return
        if joins != saved:
            file.write(joins)
        running = Running(file, dict(zip(keys, joins, strict=True)), properties)
        running.tell()
        if any(join.history.at(batch).slots > join.history.at(batch).units for join in joins):
            self.running[query_id] = running

    def _refuse(self, query: StreamingQuery, why: str) -> None:
        """End a query before its first micro-batch; Spark might fail on its changed sources for reasons of its own.

        Spark has no way for a listener to do so. Where its inside is not as we know it the tasks refuse to run.
        """
        from py4j.protocol import Py4JError

        jvm: Any = self.spark._jvm
        execution: Any = query._jsq.streamingQuery()
        parameters = {"id": query.id, "runId": query.runId, "message": why}
        try:
            cause = jvm.java.lang.IllegalStateException(why)
            scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(parameters)
            failed = jvm.org.apache.spark.sql.streaming.StreamingQueryException
            getattr(execution, "streamDeathCause_$eq")(failed("", cause, "", "", "STREAM_FAILED", scala))
        except (Py4JError, AttributeError, TypeError):
            return
        no_further_batch(self.spark, query)

    def _units(self, query_id: str, specs: Sequence[JoinSpec], saved: Sequence[Join]) -> list[int]:
        """Return the units that joins are to have: what was asked for, else the query's own, where it begins."""
        wanted = _wanted.pop(query_id, {})
        units = [spec.units for spec in specs]
        if len(saved) == len(specs) and str(self.spark.conf.get(ENABLED, "false")).lower() == "true":
            units = [join.history.entries[-1][1] for join in saved]
        elif len(saved) == len(specs):  # what cost chose gives way
            followed = [join.history.entries[-1][1] for join in saved]
            by_cost = [spec.key in _by_cost for spec in specs]
            units = [old if yields else own for old, yields, own in zip(followed, by_cost, units, strict=True)]
        return [wanted.get(spec.name, own) for spec, own in zip(specs, units, strict=True)]

    def _retire(self, query_id: str, progress: Mapping[str, Any]) -> None:
        running = self.running.get(query_id)
        if running is None:
            return
        batch = int(progress["batchId"])
        joins = dict(running.joins)
        for key, held in held_by_slot(progress.get("observedMetrics", {})).items():
            if key in joins:
                joins[key] = Join(joins[key].fingerprint, joins[key].history.retire(batch, held))
        if joins != running.joins:
            running.joins = joins
            running.file.write(list(joins.values()))
            running.tell()

    class Java:
        """What py4j looks for."""

        implements = ("org.apache.spark.sql.streaming.PythonStreamingQueryListener",)
