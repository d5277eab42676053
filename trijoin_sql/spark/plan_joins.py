"""Replaces joins of streams in Spark's own plan, for statements whose text the rewriter cannot parse.

Spark's grammar is larger than ours: pipes, IDENTIFIER, session variables, LATERAL, EXECUTE IMMEDIATE, and views that
somebody made without us. Spark parses them into a plan. A group of inner joins of streams that Spark
cannot run, for lack of an equality, is written as a plain SELECT over its inputs, and so is each such outer, semi or
anti join, with the joins below it that may be one node with it. That SELECT is rewritten like any
other, and its result takes the place of the group. The rest of the plan stays as Spark made it. Joins that are written
with DataFrames go the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from pyspark.sql import DataFrame

from ..errors import UnsupportedQueryError
from ..operators.compile.logical_plans import conjuncts as conjuncts_of
from ..operators.compile.logical_plans import frame_of, items, joins_streams, over, plan_of, sequence
from ..operators.compile.travel_types import quoted
from ..operators.compile.watermarks import DELAY
from ..rewriter.cautions import UNMATCHED
from ..rewriter.plan.parts import Refusal
from .conditions import Conditions, is_bound
from .frames import view_names

_EQUALITIES = ("EqualTo", "EqualNullSafe")

#: By Spark's name of a join's type how SQL writes it, for those that are not inner joins.
OUTER = {
    kind: f"{kind.removesuffix(' OUTER')} JOIN"
    for kind in ("LEFT OUTER", "RIGHT OUTER", "FULL OUTER", "LEFT SEMI", "LEFT ANTI")
}

#: Those that give each row of their left side, or some of them.
_KEEPING = ("LEFT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")

#: Runs a SELECT over temporary views, given by name.
Run = Callable[[str, dict[str, DataFrame]], DataFrame]


@dataclass(frozen=True, slots=True)
class Asked:
    """The topmost join of a DataFrame, if it is ours whatever its conditions.

    Parameters
    ----------
    aliases
        The names of its inputs; a join below one of them is another one.
    hints, within
        What its SELECT says of it: ``/*+ UNITS(8) */``, ``WITHIN 1 HOUR``.
    """

    aliases: frozenset[str]
    hints: str = ""
    within: str = ""


class LeftToSparkError(Exception):
    """The rewriter leaves a join to Spark; the message is the reason."""


def join_in_plan(frame: DataFrame, run: Run, asked: Asked | None = None) -> tuple[DataFrame, tuple[Refusal, ...]]:
    """Replace the joins of a streaming DataFrame of a classic session that Spark cannot run.

    Parameters
    ----------
    run
        Runs the SELECT of a group.
    asked
        Its topmost join, if it is to be replaced in any case.

    Returns
    -------
    tuple
        The DataFrame, the same one if there is nothing to do, and the refusals to raise if Spark does not run it for
        lack of an event time.
    """
    analyzed = plan_of(frame)
    if "Join" not in analyzed.toString():  # one call instead of one for each node
        return frame, ()
    plan = _Plan(frame.sparkSession, run, analyzed, asked)
    changed = plan.visit(analyzed)
    return (frame_of(frame.sparkSession, changed), tuple(plan.lost)) if plan.changes else (frame, ())


@dataclass
class _Other:
    """A join of a group that is not inner: how SQL writes it, the number of its right input, its conjuncts."""

    kind: str
    right: int
    conjuncts: list[Any]

    @property
    def is_hidden(self) -> bool:
        """Whether its right input has no columns in its result."""
        return "SEMI" in self.kind or "ANTI" in self.kind


@dataclass
class _Group:
    """Inner joins, and joins of other kinds above them: inputs, conjuncts, the inputs on each side of an inner join."""

    joins: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    conjuncts: list[Any] = field(default_factory=list)
    sides: list[tuple[range, range]] = field(default_factory=list)
    asked: Asked | None = None
    others: list[_Other] = field(default_factory=list)

    def add(self, join: Any) -> None:
        """Add a join that is not inner, above what is there."""
        found = conjuncts_of(join.condition().get()) if join.condition().isDefined() else []
        self.joins.append(join)
        self.others.append(_Other(OUTER[join.joinType().sql()], len(self.inputs), found))
        self.inputs.append(items(join.children())[1])

    @cached_property
    def owners(self) -> dict[int, tuple[int, int]]:
        """By the id of an attribute: its input, and its position there."""
        return {
            attribute.exprId().id(): (number, place)
            for number, plan in enumerate(self.inputs)
            for place, attribute in enumerate(items(plan.output()))
        }

    @cached_property
    def names(self) -> list[tuple[str, list[str]]]:
        """By input: its name, and the names of its columns, as in the user's text if these are unique."""
        aliases = [plan.alias() if plan.nodeName() == "SubqueryAlias" else "i" for plan in self.inputs]
        columns = [_unique([one.name() for one in items(plan.output())], "c") for plan in self.inputs]
        return list(zip(_unique(aliases, "i"), columns, strict=True))

    @property
    def named(self) -> list[tuple[str, list[tuple[str, Any]]]]:
        """By input: its name, and its attributes with theirs."""
        outputs = (items(plan.output()) for plan in self.inputs)
        return [
            (alias, list(zip(columns, output, strict=True)))
            for (alias, columns), output in zip(self.names, outputs, strict=True)
        ]

    def read_by(self, expression: Any) -> set[int]:
        """Return which inputs an expression reads."""
        ids = (attribute.exprId().id() for attribute in items(expression.references().toSeq()))
        return {self.owners[one][0] for one in ids if one in self.owners}

    @property
    def needs_us(self) -> bool:
        """Whether one of its joins has streams on both sides and no equality between them, or is an anti join."""
        return not all(self.equated) or any(one.kind == "LEFT ANTI JOIN" for one in self.others)

    @property
    def equated(self) -> Iterator[bool]:
        """Whether an equality is between its sides, of each join with streams on both."""
        joins = [(left, right, self.conjuncts) for left, right in self.sides]
        joins += [(range(one.right), range(one.right, one.right + 1), one.conjuncts) for one in self.others]
        for left, right, conjuncts in joins:
            if all(any(self.inputs[n].isStreaming() for n in side) for side in (left, right)):
                equal = (
                    tuple(self.read_by(side) for side in items(one.children()))
                    for one in conjuncts
                    if one.nodeName() in _EQUALITIES and not any(side.foldable() for side in items(one.children()))
                )
                pairs = (pair for sides in equal for pair in (sides, sides[::-1]))
                yield any(one and other and one <= set(left) and other <= set(right) for one, other in pairs)


_Shown = TypeVar("_Shown")

#: What a DataFrame has for a clause WATERMARK.
_WITH_WATERMARK = r'\1.withWatermark("\2", "\3 seconds")'


def in_users_words(told: _Shown, *, frames: bool = False) -> _Shown:
    """Return what is told about a join, as text or as plain data, without the names that checkpoints know inputs by.

    A DataFrame without an alias is ``df_0``, by its place in the join. Names keep their lengths, and so all places.
    Where all inputs are ``frames``, none has a clause in SQL.
    """
    match told:
        case str():
            name = r"\w+" if frames else r"__i\d+"
            text = re.sub(rf"\b({name}) WATERMARK (\w+) DELAY OF INTERVAL (\d+) SECONDS", _WITH_WATERMARK, told)
            text = re.sub(r"(?<!\w)__i(?=\d+(?:\b|__))", "df_", text)
            return re.sub(r"\b__trijoin_input_(?=\d)", "relation_number_", text)  # type: ignore[return-value]
        case dict():
            return {in_users_words(key): in_users_words(value) for key, value in told.items()}  # type: ignore[return-value]
        case list() | tuple():
            return type(told)(map(in_users_words, told))
    return told


class _Plan:
    """A plan in which groups are replaced."""

    def __init__(self, spark: Any, run: Run, root: Any, asked: Asked | None = None) -> None:
        self.spark, self.run, self.root, self.asked = spark, run, root, asked
        self.changes = 0
        self.lost: list[Refusal] = []
        self.definitions: list[Any] = []  # of the common table expressions around, which parts of the plan need

    def visit(self, plan: Any, conjuncts: list[Any] | None = None) -> Any:
        """Return a plan with its groups replaced; ``conjuncts`` come from a filter directly above it."""
        if self.asked is None and not plan.isStreaming():
            return plan
        if plan.nodeName() == "WithCTE":
            return self.visit_definitions(plan)
        if plan.nodeName() == "CTERelationRef":
            return self.told_anew(plan, self.defined(plan))
        if plan.nodeName() == "Filter" and _is_inner(plan.child()):
            wanted = [one for one in conjuncts_of(plan.condition()) if one.deterministic() and not is_bound(one)]
            return self.over(plan, [self.visit(plan.child(), wanted)])  # rows that pass the filter pass it again
        if _is_inner(plan):
            group = self.flattened(plan)
            group.conjuncts += conjuncts or []
            self.asked = None  # it was the topmost one
            if group.asked or group.needs_us:
                return self.joined(group)
        elif (outer := _outer(plan, tables=self.asked is not None and self.asked.within != "")) is not None:
            tree = None if self.asked else self.of_tree(outer)
            if tree is not None and (found := self.tried(tree)) is not None:
                return found
            group = self.of_outer(outer)
            if group.needs_us or (group.asked and group.asked.within):
                return self.joined(group)
        return self.over(plan, [self.visit(child) for child in items(plan.children())])

    def visit_definitions(self, plan: Any) -> Any:
        """Return a plan with common table expressions; their groups are replaced before groups that read them."""
        around = self.definitions
        for definition in items(plan.cteDefs()):
            self.definitions = [*self.definitions, self.visit(definition)]
        own = self.definitions[len(around) :]
        try:
            return self.over(plan, [*own, self.visit(plan.plan())])
        finally:
            self.definitions = around

    def defined(self, reference: Any) -> dict[int, Any]:
        """Return the columns of a common table expression by the ids that one of its readers uses for them."""
        number = reference.cteId()
        definition = next((one for one in self.definitions if one.id() == number), None)
        mine, theirs = items(reference.output()), items(definition.child().output()) if definition else []
        return {one.exprId().id(): its for one, its in zip(mine, theirs, strict=False)}

    def over(self, plan: Any, children: list[Any]) -> Any:
        """Return a node of the plan over other children."""
        changed = over(self.spark, plan, children)
        if changed is plan:
            return plan
        return self.told_anew(changed, {one.exprId().id(): one for child in children for one in items(child.output())})

    def told_anew(self, plan: Any, below: dict[int, Any]) -> Any:
        """Return a node whose expressions mark a column as event time if it is so below the node.

        Spark has analysed them with the watermarks of the inputs. If a join loses one, rows would be lost above.
        """
        read = [one for expression in items(plan.expressions()) for one in items(expression.references().toSeq())]
        known = [(one, below[one.exprId().id()]) for one in read if one.exprId().id() in below]
        if all(_is_time(one) == _is_time(new) for one, new in known):
            return plan
        if joins_streams(plan) and "OUTER" in plan.joinType().sql():  # Spark would lose rows that lag
            refusal = _of_lost([one for one, new in known if not _is_time(new)])
            raise UnsupportedQueryError(refusal.reason, refusal.hint)
        from pyspark.java_gateway import ensure_callback_server_started

        ensure_callback_server_started(self.spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
        return plan.mapExpressions(_Marks(self.spark, below))

    def flattened(self, plan: Any) -> _Group:
        """Return the group with a join at its top."""
        group = _Group(asked=self.asked)
        names = frozenset() if self.asked is None else self.asked.aliases

        def take(node: Any) -> range:
            first = len(group.inputs)
            inner = _bare(node)
            if not _is_inner(node) or (node.nodeName() == "SubqueryAlias" and node.alias() in names):
                group.inputs.append(node)
            elif inner.nodeName() == "Filter":
                take(inner.child())
                group.conjuncts += conjuncts_of(inner.condition())
            else:
                left, right = (take(side) for side in items(inner.children()))
                group.joins.append(inner)
                group.sides.append((left, right))
                if inner.condition().isDefined():
                    group.conjuncts += conjuncts_of(inner.condition().get())
            return range(first, len(group.inputs))

        take(plan)
        return group

    def of_outer(self, join: Any) -> _Group:
        """Return an outer, semi or anti join as a group of its own."""
        group = _Group(inputs=items(join.children())[:1], asked=self.asked)
        group.add(join)
        self.asked = None
        return group

    def of_tree(self, join: Any) -> _Group | None:
        """Return the joins whose results a join keeps, as one group with it; None if there are none to be ours."""
        above: list[Any] = []
        below = join
        while _bare(below).nodeName() == "Join" and (one := _outer(below, tables=False)) is not None:
            if OUTER[one.joinType().sql()] not in _KEEPING:
                break
            above.append(one)
            below = items(one.children())[0]
        group = self.flattened(below)
        for one in reversed(above):
            group.add(one)
        return group if above and len(group.joins) > 1 and group.needs_us else None

    def tried(self, group: _Group) -> Any | None:
        """Return the result of a group, None if it has to be joined join by join."""
        before = self.changes, list(self.lost)
        try:
            return self.joined(group)
        except UnsupportedQueryError:
            self.changes, self.lost = before
            return None

    def joined(self, group: _Group) -> Any:
        """Return the result of a group, under the ids that its attributes have above it."""
        self.changes += 1
        inputs = [self.visit(one) for one in group.inputs]
        given = [f"__trijoin_input_{n}" for n in range(len(inputs))]  # what checkpoints know inputs by
        if group.asked is not None:
            given = view_names([alias for alias, _ in group.names])
        conditions = Conditions(self.spark, group.named)
        texts, left = self.texts(conditions, group.conjuncts)
        clauses = []
        for one in group.others:
            on, only_spark = self.texts(conditions, one.conjuncts)
            if only_spark:
                reason = f"only Spark can evaluate {only_spark[0].sql()}, on pairs of rows"
                raise UnsupportedQueryError(f"a {one.kind} of streams without an equality between its sides: {reason}")
            clauses.append((one.kind, f" ON {' AND '.join(on or ['TRUE'])}"))
        plans = [conditions.under(plan, number) for number, plan in enumerate(inputs)]
        views = dict(zip(given, map(self.input, plans), strict=True))
        read = self.read_outside(group, left)
        hidden = {one.right for one in group.others if one.is_hidden}
        columns = [
            (number, place, attribute)
            for number, plan in enumerate(group.inputs)
            for place, attribute in enumerate(items(plan.output()))
            if number not in hidden
        ]
        kept = [one for one in columns if one[2].exprId().id() in read] or columns[:1]
        names = [[f"{quoted(alias)}.{quoted(one)}" for one in listed] for alias, listed in group.names]
        selected = ", ".join(f"{names[number][place]} AS o{n}" for n, (number, place, _) in enumerate(kept))
        named = [f"{view} AS {quoted(alias)}" for view, (alias, _) in zip(views, group.names, strict=True)]
        inner = len(named) - len(clauses)
        sources = " CROSS JOIN ".join(named[:inner])
        sources += "".join(f" {kind} {one}{on}" for one, (kind, on) in zip(named[inner:], clauses, strict=True))
        where = f" WHERE {' AND '.join(texts or ['TRUE'])}" if inner > 1 else ""
        hints, within = ("", "") if group.asked is None else (group.asked.hints, group.asked.within)
        try:
            result = plan_of(self.run(f"SELECT {hints}{selected} FROM {sources}{where}{within}", views))
        except LeftToSparkError as found:
            lacks = "" if all(group.equated) else " without an equality between its sides"
            kind = group.others[-1].kind if group.others else "join"
            hint = UNMATCHED if kind == "LEFT ANTI JOIN" else None
            raise UnsupportedQueryError(f"a {kind} of streams{lacks}: {found}", hint) from None
        lost = [one for (_, _, one), new in zip(kept, items(result.output()), strict=True) if not _is_time(new)]
        if any(map(_is_time, lost)):
            self.lost.append(_of_lost(lost))
        renamed = [
            conditions.alias(found, attribute.name(), attribute)
            for found, (_, _, attribute) in zip(items(result.output()), kept, strict=True)
        ]
        logical = self.spark._jvm.org.apache.spark.sql.catalyst.plans.logical
        plan = logical.Project(sequence(self.spark, renamed), result)
        for conjunct in left:
            plan = logical.Filter(conjunct, plan)
        return plan

    def texts(self, conditions: Conditions, conjuncts: list[Any]) -> tuple[list[str], list[Any]]:
        """Return conjuncts as SQL, and those that have no such form."""
        read = [(one, conditions.text(one)) for one in conjuncts]
        return [f"({text})" for _, text in read if text is not None], [one for one, text in read if text is None]

    def outside(self, group: _Group) -> Iterator[Any]:
        """Yield the nodes of the plan except a group's inputs."""
        stack = [self.root]
        while stack:
            node = stack.pop()
            if not any(node.fastEquals(one) for one in group.inputs):
                yield node
                stack += items(node.children())

    def input(self, plan: Any) -> DataFrame:
        """Return the plan of an input as a DataFrame, with the common table expressions that it may read."""
        if self.definitions:
            logical = self.spark._jvm.org.apache.spark.sql.catalyst.plans.logical
            plan = logical.WithCTE(plan, sequence(self.spark, self.definitions))
        return frame_of(self.spark, plan)

    def read_outside(self, group: _Group, left: list[Any]) -> set[int]:
        """Return the ids of the attributes that the plan reads outside of a group, and in conjuncts left above it."""
        found = {attribute.exprId().id() for attribute in items(self.root.output())}
        above = (node for node in self.outside(group) if not any(node.fastEquals(one) for one in group.joins))
        for one in (*above, *left):
            found |= {attribute.exprId().id() for attribute in items(one.references().toSeq())}
        return found


def _unique(names: list[str], prefix: str) -> list[str]:
    """Return names; those that are not unique become a prefix and their position."""
    lower = [name.lower() for name in names]
    return [name if lower.count(name.lower()) == 1 else f"__{prefix}{n}" for n, name in enumerate(names)]


def _of_lost(attributes: list[Any]) -> Refusal:
    """Return the refusal for event times that a join of ours loses and an operator above it needs."""
    names = ", ".join(".".join([*items(one.qualifier())[-1:], one.name()]) for one in attributes if _is_time(one))
    reason = (
        f"an aggregation, a join or a deduplication above a join of streams may go by {names}, and nothing says how "
        f"far that lags behind when a joined row comes with the last of its rows"
    )
    return Refusal(reason, "bound the event times of the joined streams from both sides, or use MODE update")


class _Marks:
    """A Scala function that marks the columns in an expression as event time or not."""

    def __init__(self, spark: Any, below: dict[int, Any]) -> None:
        self.spark, self.below = spark, below

    def apply(self, expression: Any) -> Any:
        """Return an expression with the marks of the columns below."""
        if expression.nodeName() == "AttributeReference":
            new = self.below.get(expression.exprId().id())
            if new is None or _is_time(new) == _is_time(expression):
                return expression
            return expression.withMetadata(new.metadata())
        changed = over(self.spark, expression, [self.apply(child) for child in items(expression.children())])
        explicit = expression.nodeName() == "Alias" and expression.explicitMetadata().isDefined()
        return self.without_mark(changed) if changed is not expression and explicit and _is_time(changed) else changed

    def without_mark(self, alias: Any) -> Any:
        """Return a window without its copy of its time's mark."""
        jvm = self.spark._jvm
        metadata = jvm.org.apache.spark.sql.types.MetadataBuilder().withMetadata(alias.metadata()).remove(DELAY).build()
        parts = alias.name(), alias.exprId(), alias.qualifier()
        keys = alias.nonInheritableMetadataKeys()
        return jvm.org.apache.spark.sql.catalyst.expressions.Alias(
            alias.child(), *parts, jvm.scala.Option.apply(metadata), keys
        )

    class Java:
        """What py4j looks for."""

        implements = ("scala.Function1",)


def _is_time(attribute: Any) -> bool:
    return bool(attribute.metadata().contains(DELAY))


def _bare(plan: Any) -> Any:
    while plan.nodeName() == "SubqueryAlias":
        plan = plan.child()
    return plan


def _is_inner(plan: Any) -> bool:
    """Return whether a plan is an inner join, possibly below names and filters."""
    plan = _bare(plan)
    if plan.nodeName() == "Filter":
        return plan.condition().deterministic() and not is_bound(plan.condition()) and _is_inner(plan.child())
    return plan.nodeName() == "Join" and plan.joinType().sql() in ("INNER", "CROSS")


def _outer(plan: Any, *, tables: bool) -> Any | None:
    """Return the outer, semi or anti join of two streams that a plan is, possibly below names; None if it is none.

    Parameters
    ----------
    tables
        Whether a join of tables is one, too.
    """
    plan = _bare(plan)
    joins = plan.nodeName() == "Join" if tables else joins_streams(plan)
    return plan if joins and plan.joinType().sql() in OUTER else None
