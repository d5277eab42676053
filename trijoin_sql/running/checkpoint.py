"""TriJoin SQL's own file in a query's checkpoint: what identifies the query, and the layouts of its units.

`listener` compares a query with it before its first micro-batch, and records new layouts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any

from pyspark.sql import SparkSession

from ..errors import CheckpointDamagedError, CheckpointMismatchError, CheckpointVersionError
from ..operators.spec import JoinSpec
from ..operators.state.changed_query import APART, TOGETHER, difference, is_same, lines_of, only_chosen_differs
from ..operators.state.layout import History, obstacle
from ..operators.state.manifest import FORMAT
from ..rewriter.plan.stored import Stored
from ..spark.versions import minor
from .versioned_file import VersionedFile

#: The folder inside the checkpoint's.
FOLDER = "trijoin"

#: Which Spark wrote files that do not say it: the only one that we ran on then.
_FIRST_SPARK = "4.3"


@dataclass(frozen=True, slots=True)
class SavedJoin:
    """What a checkpoint knows about one join.

    Parameters
    ----------
    fingerprint
        What must not change when a query restarts on the state, in lines.
    stored
        The join group that it runs, so that a query can be planned like it (`TriJoinSession.resuming`): none for an
        inner node of an operator tree, whose root runs the whole group.
    history
        The layouts of its units.
    held_back
        By how much Spark's watermark is behind that of the units, in microseconds.
    turn
        If this length changed: Spark's watermark up to which another one applied (milliseconds), and that length.
    grid
        If its units are cells: how many there are along each dimension of their grid.
    """

    fingerprint: str
    history: History
    held_back: int = 0
    turn: tuple[int, int] | None = None
    stored: tuple[Stored, ...] = ()
    grid: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "fingerprint": self.fingerprint,
            "stored": [asdict(one) for one in self.stored],
            **self.told(),
        }

    def told(self) -> dict[str, Any]:
        """Return the data for tasks."""
        turn = {} if self.turn is None else {"turn": list(self.turn)}
        held = {"held_back": self.held_back} if self.held_back else {}
        grid = {"grid": list(self.grid)} if self.grid else {}
        return {**self.history.to_dict(), **turn, **held, **grid}

    @classmethod
    def from_dict(cls, body: Mapping[str, Any]) -> SavedJoin:
        """Return a join from plain data."""
        turn = body.get("turn")
        held = int(body.get("held_back", 0)), None if turn is None else (int(turn[0]), int(turn[1]))
        groups = map(Stored.from_dict, body["stored"]) if "stored" in body else [group_of(body["fingerprint"])]
        grid = body["grid"] if "grid" in body else _grid_of(body["fingerprint"])
        return cls(body["fingerprint"], History.from_dict(body), *held, tuple(groups), tuple(map(int, grid)))

    def turned(self, held_back: int, watermark: int) -> SavedJoin:
        """Return the join with a new length by which Spark's watermark is held back from now on.

        The checkpoint's watermark, in milliseconds, was held back by another length, and never goes back. Until rows
        move it on, it stays as far from that of the units as it was.
        """
        if held_back == self.held_back:
            return self
        now = self.turn[1] if self.turn is not None and watermark <= self.turn[0] else self.held_back
        return replace(self, held_back=held_back, turn=(watermark, now) if watermark > 0 else None)


def follow(
    saved: Sequence[SavedJoin],
    specs: Sequence[JoinSpec],
    units: Sequence[int],
    batch: int,
    watermark: int = 0,
    *,
    shapes: Sequence[tuple[int, ...]] = (),
    real_time: bool = False,
) -> list[SavedJoin]:
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
    shapes
        Of cells, how many there are along each dimension in so many units; of subgroups, the units that each should
        have.
    real_time
        Whether they run under the trigger ``realTime``.

    Raises
    ------
    CheckpointMismatchError
        The checkpoint belongs to another query, or its units cannot change.
    """
    if not saved or not batch:
        starting = zip(specs, units, strict=True)
        return [
            SavedJoin(
                spec.fingerprint,
                History(((0, wanted if spec.elastic else spec.units),)),
                spec.held_back,
                grid=spec.options.grid,
            )
            for spec, wanted in starting
        ]
    if len(saved) != len(specs):
        change = f"it was written by a query with {len(saved)} joins of streams, and this one has {len(specs)}"
        if any(spec.join == "mixed" for spec in specs):
            change += f". {APART}"
        raise CheckpointMismatchError("of this query", change)
    joins = []
    for join, spec, wanted, shape in zip(saved, specs, units, shapes or [()] * len(specs), strict=True):
        if not is_same(join.fingerprint, spec.fingerprint):
            raise CheckpointMismatchError("of this query", _difference(join, spec))
        old = join.history.at(batch - 1)[0].units
        if spec.subgroups == 1 and shape:
            wanted = wanted if wanted == old else prod(shape)  # some are divided along no dimension
            shape = () if wanted == old else shape
        why = obstacle(spec, old, wanted, real_time=real_time)
        if why is not None:
            raise CheckpointMismatchError("of this query", f"units was {old} and is now {wanted}; {why}")
        history = join.history.changed(batch, wanted, apart=spec.has_own_slots, shape=shape)
        # an older version may have written less
        joins.append(replace(join, fingerprint=spec.fingerprint, history=history).turned(spec.held_back, watermark))
    return joins


def _grid_of(fingerprint: str) -> list[str]:
    """Return the grid that an older version wrote into its fingerprint."""
    shares = lines_of(fingerprint).get("option grid")
    return shares.split("x") if shares else []


def recorded(join: SavedJoin, groups: Sequence[Stored]) -> SavedJoin:
    """Return a join with its groups as they are planned now; units that cannot change stay those of the checkpoint."""
    kept = {one.relations: one.units for one in join.stored}
    units = [None if one.units is None else kept.get(one.relations) or one.units for one in groups]
    return replace(join, stored=tuple(replace(one, units=own) for one, own in zip(groups, units, strict=True)))


def _difference(join: SavedJoin, spec: JoinSpec) -> str:
    """Return what differs between a checkpoint's join and a query's, and how to keep what cost may have changed."""
    text = difference(join.fingerprint, spec.fingerprint)
    if TOGETHER in spec.fingerprint and TOGETHER not in join.fingerprint:
        text += ". An older version read a source for each of its aliases: plan the query in tj.resuming(checkpoint)"
    if not join.stored or not only_chosen_differs(join.fingerprint, spec.fingerprint):
        return text
    return (
        f"{text}. If rates were declared since, the hint {join.stored[0].hint} keeps what it has, as tj.resuming does"
    )


def check_locations(function: str, locations: Sequence[object]) -> None:
    """Raise a TypeError for a checkpoint location that is no text."""
    for one in locations:
        if not isinstance(one, str) or not one:
            raise TypeError(f"{function}() takes a checkpoint's location as a str, not {one!r}")


def stored_groups(spark: SparkSession, checkpoint: str) -> tuple[Stored, ...]:
    """Return how a checkpoint stores the rows of its join groups, nothing if it does not exist yet.

    One that Spark has written without us has a group of no relations: then joins that Spark runs stay with it.

    Raises
    ------
    CheckpointVersionError
        It was written by another version.
    CheckpointDamagedError
        Its description of the joins cannot be read.
    """
    found = groups_of(CheckpointFile(spark, checkpoint).read())
    is_sparks = not found and VersionedFile(spark, f"{checkpoint}/offsets", "{}").read() is not None
    return (Stored((), "", together=True),) if is_sparks else found


def groups_of(joins: Sequence[SavedJoin]) -> tuple[Stored, ...]:
    """Return the groups that joins run, with the units in which their rows are stored last."""
    return tuple(replace(stored, units=stored.units or _plannable(join)) for join in joins for stored in join.stored)


def _plannable(join: SavedJoin) -> int:
    """Return the units in which a join's rows are stored last; of uneven subgroups, what a hint can ask for."""
    _, units, *more = join.history.entries[-1]
    return units if join.grid else units - units % max(len(more[1:]), 1)


def group_of(fingerprint: str) -> Stored:
    """Return what a fingerprint tells of the group that its join runs: for a checkpoint from before there were records.

    Of an operator tree each node is told by itself, for nothing says which relations it has stored; unless rates were
    declared since, it is planned as it was. The next start writes the records.
    """
    lines = lines_of(fingerprint)
    relations, units = tuple(lines["order of streams"].split(", ")), lines.get("units")
    conditions = tuple(sorted(value for name, value in lines.items() if name.startswith("condition between ")))
    ranks = lines["option order"].split(",") if "option order" in lines else range(len(relations))
    order = tuple(relations[int(rank)] for rank in ranks) if lines["scheme"] == "tree" else ()
    return Stored(relations, lines["scheme"], None if units is None else int(units), order, conditions)


class CheckpointFile:
    """Our file in a checkpoint.

    Parameters
    ----------
    spark
        The session.
    root
        The checkpoint's folder, as Spark resolved it.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root
        self._spark = "{}.{}".format(*minor(spark.version))
        #: Whether a query of this version of Spark went on last, or none did.
        self.of_this_spark = True
        #: Whether what was read or written is of the trigger realTime, whose operator keeps rows in another form.
        self.in_real_time = False
        self._file = VersionedFile(spark, f"{root}/{FOLDER}", "joins-{}.json")

    def read(self) -> list[SavedJoin]:
        """Return the contents of the file, nothing if there is none.

        Raises
        ------
        CheckpointVersionError
            It was written by another version, in a format that this one does not know, or under a newer Spark, whose
            state older ones misread without an error.
        CheckpointDamagedError
            It is not in our format.
        """
        found = self._file.read()
        if found is None:
            return []
        name, text = found
        try:
            body = json.loads(text)
            version = body["version"]
            joins = [SavedJoin.from_dict(one) for one in body["joins"]] if version == FORMAT else []
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CheckpointDamagedError(self.root, f"its file {FOLDER}/{name} cannot be read: {error}") from None
        if version != FORMAT:
            told = f"its folder {FOLDER} has format {version}, and this version reads format {FORMAT}"
            raise CheckpointVersionError(self.root, told)
        wrote = str(body.get("spark", _FIRST_SPARK))
        if minor(wrote) > minor(self._spark):
            told = f"Spark {wrote} wrote its state, and this is Spark {self._spark}, which would misread it"
            raise CheckpointVersionError(self.root, told)
        self.of_this_spark = wrote == self._spark
        self.in_real_time = bool(body.get("real_time"))
        return joins

    def write(self, joins: Sequence[SavedJoin]) -> None:
        """Replace the contents of the file."""
        body: dict[str, Any] = {"version": FORMAT, "spark": self._spark, "joins": [join.to_dict() for join in joins]}
        if self.in_real_time:
            body["real_time"] = True
        self._file.write(json.dumps(body, indent=1).encode())
