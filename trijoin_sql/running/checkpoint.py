"""TriJoin SQL's own file in a query's checkpoint: what identifies the query, and the layouts of its units.

`listener` compares a query with it before its first micro-batch, and records new layouts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import SparkSession

from ..errors import CheckpointDamagedError, CheckpointMismatchError, CheckpointVersionError
from ..operators.compile.fingerprint import hint_to_keep, written_order
from ..operators.spec import JoinSpec
from ..operators.state.changed_query import difference, lines_of
from ..operators.state.layout import History, obstacle
from ..operators.state.manifest import FORMAT
from ..rewriter.options import Stored
from ..rewriter.sql.dialect import quote

#: The folder inside the checkpoint's.
FOLDER = "trijoin"

_FILE = re.compile(r"joins-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class Join:
    """What a checkpoint knows about one join.

    Parameters
    ----------
    fingerprint
        What must not change when a query restarts on the state, in lines.
    history
        The layouts of its units.
    held_back
        By how much Spark's watermark is behind that of the units, in microseconds.
    turn
        If this length changed: Spark's watermark up to which another one applied (milliseconds), and that length.
    """

    fingerprint: str
    history: History
    held_back: int = 0
    turn: tuple[int, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"fingerprint": self.fingerprint, **self.told()}

    def told(self) -> dict[str, Any]:
        """Return the data for tasks."""
        turn = {} if self.turn is None else {"turn": list(self.turn)}
        held = {"held_back": self.held_back} if self.held_back else {}
        return {**self.history.to_dict(), **turn, **held}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> Join:
        """Return a join from plain data."""
        turn = body.get("turn")
        held = int(body.get("held_back", 0)), None if turn is None else (int(turn[0]), int(turn[1]))
        return cls(body["fingerprint"], History.from_dict(body), *held)

    def turned(self, held_back: int, watermark: int) -> Join:
        """Return the join with a new length by which Spark's watermark is held back from now on.

        The checkpoint's watermark, in milliseconds, was held back by another length, and never goes back. Until rows
        move it on, it stays as far from that of the units as it was.
        """
        if held_back == self.held_back:
            return self
        now = self.turn[1] if self.turn is not None and watermark <= self.turn[0] else self.held_back
        return replace(self, held_back=held_back, turn=(watermark, now) if watermark > 0 else None)


def follow(
    saved: Sequence[Join], specs: Sequence[JoinSpec], units: Sequence[int], batch: int, watermark: int = 0
) -> list[Join]:
    """Return the joins of a query that starts on a checkpoint.

    Parameters
    ----------
    saved
        What the checkpoint says about its joins; empty if it is new.
    specs, units
        The query's joins, and the units that each should have.
    batch
        The first micro-batch that has not been planned. One that was planned and has not finished keeps its layout.
    watermark
        The furthest watermark of the checkpoint, in milliseconds.

    Raises
    ------
    CheckpointMismatchError
        The checkpoint belongs to another query, or its units cannot change.
    """
    if not saved or not batch:
        starting = zip(specs, units, strict=True)
        return [
            Join(spec.fingerprint, History(((0, wanted if spec.elastic else spec.units),)), spec.held_back)
            for spec, wanted in starting
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
        joins.append(replace(join, history=history).turned(spec.held_back, watermark))
    return joins


def _difference(join: Join, spec: JoinSpec) -> str:
    """Return what differs between a checkpoint's join and a query's, and how to keep what cost may have changed."""
    text, hint = difference(join.fingerprint, spec.fingerprint), hint_to_keep(join.fingerprint, spec.fingerprint)
    if hint is None:
        return text
    return f"{text}. If rates were declared since, the hint {hint} keeps what it has, as tj.resuming does"


def stored_joins(spark: SparkSession, checkpoint: str) -> tuple[Stored, ...]:
    """Return how a checkpoint stores the rows of its join groups, nothing if it does not exist yet.

    Raises
    ------
    CheckpointVersionError
        It was written by another version.
    CheckpointDamagedError
        Its description of the joins cannot be read.
    """
    joins = CheckpointFile(spark, checkpoint).read()
    try:
        return read_stored(joins)
    except KeyError as error:
        raise CheckpointDamagedError(checkpoint, f"what its folder {FOLDER} says lacks {error}") from None


def read_stored(joins: Sequence[Join]) -> tuple[Stored, ...]:
    """Return how a checkpoint's joins store rows: each join by itself, those of an operator tree also as a group.

    A node of a tree reads a stored result under the names of its members, joined by underscores. So does a query that
    gives that name to a common table expression. Only the query that restarts on the checkpoint knows which it is.
    """
    parts = [lines_of(join.fingerprint) for join in joins]
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
        order = written_order(part) if "option order" in part else None
        found.append(Stored(relations[at], part["scheme"], units, order, written))
        text, leaves = tree(at)
        if at not in nested and len(leaves) > len(relations[at]):
            trees.append(Stored(leaves, "operator_tree", units, text, written))
    return (*found, *trees)


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
        """Return the contents of the file, nothing if there is none.

        Raises
        ------
        CheckpointVersionError
            It was written by another version, in a format that this one does not know.
        CheckpointDamagedError
            It is not in our format.
        """
        versions = self._versions()
        if not versions:
            return []
        stream = self._manager.open(self._path(versions[-1]))
        try:
            text = bytes(self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()
        try:
            body = json.loads(text)
            version = body["version"]
            joins = [Join.from_dict(one) for one in body["joins"]] if version == FORMAT else []
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            file = f"{FOLDER}/joins-{versions[-1]}.json"
            raise CheckpointDamagedError(self.root, f"its file {file} cannot be read: {error}") from None
        if version != FORMAT:
            told = f"its folder {FOLDER} has format {version}, and this version reads format {FORMAT}"
            raise CheckpointVersionError(self.root, told)
        return joins

    def write(self, joins: Sequence[Join]) -> None:
        """Replace the contents of the file."""
        self._manager.mkdirs(self._folder)
        versions = self._versions()
        stream = self._manager.createAtomic(self._path(versions[-1] + 1 if versions else 0), False)
        try:
            body = {"version": FORMAT, "joins": [join.to_dict() for join in joins]}
            stream.write(json.dumps(body, indent=1).encode())
        except BaseException:
            stream.cancel()
            raise
        stream.close()
        for version in versions:
            self._manager.delete(self._path(version))
