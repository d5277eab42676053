"""The rewriter from SQL text to join nodes: the one place that knows the order of the stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlglot.errors import SqlglotError

from ..errors import PlanError, TriJoinError, UnsupportedQueryError
from .cautions import UNBOUNDED_OUTER, cautions
from .choose.describe import describe
from .event_time.event_times import append_refusals, carry_event_times, join_refusals
from .front_end import read
from .glance import misplaced_hints
from .options import DEFAULTS, Settings
from .plan.conjuncts import KINDS, Residual
from .plan.display import plan_text
from .plan.document import Document, Stage
from .plan.joins import join_words, written
from .plan.json_codec import as_object
from .plan.nodes import (
    Block,
    Join,
    JoinNode,
    LeftAlone,
    Node,
    Query,
    Scan,
    column_types,
    in_results,
    own_tree,
    scans,
    walk,
)
from .plan.parts import At, Refusal
from .predicates.terms import is_equality
from .render.delays import held_back_in_text
from .rules.apply_within import apply_within
from .rules.bound_event_time import bound_event_time
from .rules.choose_schemes import choose_schemes
from .rules.classify_conditions import classify_conditions
from .rules.create_multi_join_groups import create_multi_join_groups
from .rules.create_multi_join_nodes import create_multi_join_nodes
from .rules.derive_conditions import derive_conditions
from .rules.derive_distance_bands import derive_distance_bands
from .rules.derive_time_bands import derive_time_bands
from .rules.grow_operator_trees import grow_operator_trees
from .rules.mark_join_trees import mark_join_trees
from .rules.order_branches import order_branches
from .rules.place_exchanges import place_exchanges
from .rules.pre_aggregate import pre_aggregate
from .rules.prune_columns import prune_columns
from .rules.push_down_conditions import push_down_conditions
from .rules.raise_on_pairs import raise_on_pairs
from .rules.rule import NotApplicable, Rule, beyond_spark
from .rules.separate_static_relations import separate_static_relations
from .rules.settle_pairs import settle_pairs
from .rules.simplify_conditions import simplify_conditions
from .sql.arguments import Arguments
from .sql.catalog import Catalog
from .sql.hints import for_spark
from .sql.places import placed
from .sql.spark_types import UNKNOWN, may_be_event_time
from .sql.statement import Statement, View, parse_statement, positional_name, why_unreadable
from .strict import refuse_unproven

Kind = Literal["select", "create_view", "explain", "other"]


@dataclass(frozen=True)
class Rewrite:
    """The result of rewriting a statement.

    Parameters
    ----------
    sql
        The statement as the user wrote it.
    kind
        ``select``, ``create_view``, ``explain`` or ``other`` (not looked at).
    spark_sql
        The query for Spark if nothing is converted (of a view or an EXPLAIN, the inner one): the user's own text, or
        the same without our clauses and hints.
    plan
        The plan to run if something is converted, else None.
    stages
        The plan after each stage.
    groups
        Every join group, in plan order.
    advice
        Sentences for the user.
    cautions
        Those of them that a user should hear when the query starts.
    refusals
        Why Spark cannot run its part of the query on streams.
    append_refusals
        Why a window above a join cannot run in append mode.
    view
        For ``create_view``: what it declares.
    explain_format
        For ``explain``: FORMATTED, JSON, MERMAID, HTML or None.
    parameters
        The names of the ``?`` markers in order: `plan` has named parameters, ``spark_sql`` keeps the ``?`` where they
        are all there and in order.
    """

    sql: str
    kind: Kind
    spark_sql: str
    plan: Query | None = None
    stages: tuple[Stage, ...] = ()
    groups: tuple[JoinNode | LeftAlone, ...] = ()
    advice: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    append_refusals: tuple[Refusal, ...] = ()
    view: View | None = None
    explain_format: str | None = None
    parameters: tuple[str, ...] = ()

    @property
    def converted(self) -> bool:
        """True if at least one group is a join node of ours."""
        return self.plan is not None

    @property
    def document(self) -> Document:
        """What EXPLAIN draws."""
        return Document(
            1,
            self.sql,
            self.kind,
            self.converted,
            self.stages,
            tuple(describe(group) for group in self.groups),
            self.advice,
            self.refusals,
            self.append_refusals,
        )

    def named(self, arguments: Arguments) -> Mapping[str, object] | None:
        """Return arguments as `plan` takes them."""
        if arguments is None or isinstance(arguments, Mapping):
            return arguments
        return dict(zip(self.parameters, arguments, strict=False))

    def spark_arguments(self, arguments: Any) -> Any:
        """Return arguments as ``spark_sql`` takes them."""
        renamed = any(f":{name}" in self.spark_sql for name in self.parameters)
        return self.named(arguments) if renamed and isinstance(arguments, list) else arguments

    def to_dict(self) -> dict[str, Any]:
        """Return the object that ``explain --format json`` prints."""
        return as_object(self.document)


StageFunction = Callable[[Node, Settings], Node | NotApplicable]


def _rule(rule: Rule) -> StageFunction:
    return lambda plan, _settings: rule(plan)


#: The stages between parsing and rendering, in their order.
STAGES: tuple[tuple[str, StageFunction], ...] = (
    # before conditions move: whether a join is ours decides where to
    ("mark_join_trees", mark_join_trees),
    # before all rules that read conjuncts
    ("simplify_conditions", simplify_conditions),
    # places the conjuncts of WHERE on joins and scans, so that derivation sees each tree of inner joins as a whole
    ("push_down_conditions", _rule(push_down_conditions)),
    ("apply_within", _rule(apply_within)),
    ("derive_conditions", _rule(derive_conditions)),
    # after derivation, which reads conditions as text; a band needs both its sides on one join
    ("classify_conditions", classify_conditions),
    # after classification, which leaves conditions that only bound times
    ("derive_time_bands", derive_time_bands),
    ("derive_distance_bands", derive_distance_bands),
    # before the groups are formed: it decides who may be in one
    ("separate_static_relations", separate_static_relations),
    # after separation, which leaves the joins of tables that are ours
    ("raise_on_pairs", raise_on_pairs),
    # after the last stage that changes conditions: which joins may be branches follows from these
    ("order_branches", _rule(order_branches)),
    ("place_exchanges", _rule(place_exchanges)),
    # the Two-Step Convert of 004 section 3.2
    ("create_multi_join_groups", _rule(create_multi_join_groups)),
    ("create_multi_join_nodes", _rule(create_multi_join_nodes)),
    # retention before schemes: memory depends on it
    ("bound_event_time", bound_event_time),
    ("choose_schemes", choose_schemes),
    # after the scheme is known, before columns are pruned: results that stay in the units need none
    ("pre_aggregate", pre_aggregate),
    ("prune_columns", _rule(prune_columns)),
)


def rewrite(
    sql: str | Statement, catalog: Catalog, settings: Settings = DEFAULTS, arguments: Arguments = None
) -> Rewrite:
    """Rewrite one statement.

    Parameters
    ----------
    sql
        One statement; a semicolon at its end is allowed. One that is parsed already stays as it is.
    catalog
        Where schemas come from.
    settings
        How to rewrite.
    arguments
        The values of ``:name`` and ``?``, as in ``spark.sql``; conditions are planned with them.

    Raises
    ------
    SqlSyntaxError
        The text does not parse.
    UnsupportedQueryError
        WITHIN stands where it cannot be applied.
    NotProvenError
        Settings are strict, and a join of streams is not proven to forget its rows, or makes a cross product.
    InvalidHintError
        One of our hints cannot be followed.
    PlanError
        A stage broke an invariant: a bug of ours.
    """
    statement = parse_statement(sql) if isinstance(sql, str) else sql
    if statement.tree is None:
        return Rewrite(statement.sql, "other", statement.sql)
    try:
        return _rewrite(statement, catalog, settings, arguments)
    except TriJoinError:
        raise
    except (SqlglotError, RecursionError, LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
        unreadable = why_unreadable(statement.sql, statement.tree)
        if unreadable is not None:
            raise unreadable from None
        raise PlanError(f"{type(error).__name__} while rewriting: {error}") from error


def _rewrite(statement: Statement, catalog: Catalog, settings: Settings, arguments: Arguments) -> Rewrite:
    settings = dataclasses.replace(settings, ask=catalog.types_of)
    reading = read(statement, catalog, settings, arguments)
    plan: Node = reading.plan
    stages = [Stage("parse", plan_text(plan))]
    for name, stage in STAGES:
        changed = stage(plan, settings)
        if isinstance(changed, NotApplicable):
            stages.append(Stage(name, stages[-1].plan, changed.reason))
            continue
        check_schema(name, plan, changed)
        plan = changed
        stages.append(Stage(name, plan_text(plan)))
    found = _groups(plan)
    refused = (*refusals(plan), *join_refusals(plan, settings))
    if refused and settings.trees and any(isinstance(node, JoinNode) and node.join == "mixed" for node in found):
        apart = _rewrite(statement, catalog, dataclasses.replace(settings, trees=False), arguments)
        if not apart.refusals:  # Spark may know when a row is over where we do not: by windows, say
            return apart
    _check_within(plan, refused)
    not_appended = append_refusals(plan, settings)
    final = None
    if any(isinstance(node, JoinNode) for node in found):
        plan = carry_event_times(plan, settings)
        final = reading.put_back(plan)
        stages.append(Stage("render", plan_text(final)))
        by_name = {node.name: node for node in walk(final) if isinstance(node, JoinNode)}
        found = tuple(by_name.get(node.name, node) if isinstance(node, JoinNode) else node for node in found)
        for grow in (grow_operator_trees, settle_pairs):
            grown = grow(final)
            if isinstance(grown, Query):
                final = grown
                stages.append(Stage(grow.__name__, plan_text(final)))
        if settings.watermarks == "text":
            final = held_back_in_text(final)
    if settings.strict:
        for refusal in refused:
            raise placed(refusal, statement.sql)
        refuse_unproven(statement.sql, plan, found)
    warned = (*cautions(found), *misplaced_hints(statement.sql))
    begun = tuple(dict.fromkeys(f"{one.name} begins with the rows of {one}" for one in statement.histories))
    advice = begun + warned + tuple(dict.fromkeys(r.advice for group in found for r in group.retention if r.advice))
    advice += tuple(f"{refusal.reason}; {refusal.hint}" for refusal in not_appended)
    said = (sentence for group in found for sentence in (group.decision.advice, group.decision.unscaled) if sentence)
    advice += tuple(dict.fromkeys(said))
    return Rewrite(
        sql=statement.written,
        kind=statement.kind,
        spark_sql=for_spark(statement) if reading.joined is None or (final is None and refused) else reading.joined,
        plan=final,
        stages=tuple(stages),
        groups=found,
        advice=advice,
        cautions=warned,
        refusals=refused,
        append_refusals=not_appended,
        view=statement.view,
        explain_format=statement.explain_format,
        parameters=tuple(positional_name(number) for number in range(1, statement.positional + 1)),
    )


def _groups(plan: Node) -> tuple[JoinNode | LeftAlone, ...]:
    """Return the groups in plan order: a group comes after the groups in its inputs."""
    found: dict[int, JoinNode | LeftAlone] = {}
    seen: set[int] = set()

    def visit(node: Node) -> None:
        if id(node) in seen:
            return
        seen.add(id(node))
        for below in node.inputs:
            visit(below)
        if isinstance(node, JoinNode | LeftAlone):
            found[id(node)] = node

    visit(plan)
    return tuple(found.values())


def _check_within(plan: Node, refused: Sequence[Refusal]) -> None:
    for block in walk(plan):
        if isinstance(block, Block) and block.within is not None:
            inside = _groups(block.input)
            if not any(isinstance(node, JoinNode) for node in inside):
                for refusal in refused:
                    raise UnsupportedQueryError(refusal.reason, refusal.hint, subject=refusal.subject)
                reason = next((node.decision.reason for node in inside), block.problem or "there is no group")
                told = f"WITHIN needs a join that TriJoin SQL runs, and this one is not: {reason}"
                raise UnsupportedQueryError(told, subject="WITHIN", unknown="")


def check_schema(stage: str, before: Node, after: Node) -> None:
    """Check that a stage lost no SELECT, no relation and no column that is read.

    Raises
    ------
    PlanError
        It lost one.
    """
    old, new = _schemas(before), _schemas(after)
    if old.keys() != new.keys():
        raise PlanError(f"{stage} changed the SELECTs from {sorted(old)} to {sorted(new)}")
    for number, block in old.items():
        lost = set(block.required) - _available(new[number].input)
        if lost:
            raise PlanError(f"{stage} lost {', '.join(sorted(f'{a}.{n}' for a, n in lost))}")
        if sorted(s.alias for s in scans(block.input)) != sorted(s.alias for s in scans(new[number].input)):
            raise PlanError(f"{stage} changed the relations of SELECT {number + 1}")


def _schemas(plan: Node) -> dict[int, Block]:
    return {node.number: node for node in walk(plan) if isinstance(node, Block) and node.problem is None}


def _available(node: Node) -> set[tuple[str, str]]:
    if isinstance(node, JoinNode):
        terms = node.aggregation.terms if node.aggregation is not None else ()
        inside = {column for term in terms for column in term.columns}
        return inside | {(column.relation, column.column) for column in node.output}
    if isinstance(node, Scan):
        return {(node.alias, column.name) for column in node.columns}
    return {column for below in node.inputs for column in _available(below)}


_ONE_SIDE_EACH = "compare expressions of one side each"


def refusals(plan: Node) -> tuple[Refusal, ...]:
    """Return the joins of streams that neither we nor Spark can run: they have no equality between the two sides."""
    found = []
    alone = {id(one): node.decision.reason for node in walk(plan) if isinstance(node, LeftAlone) for one in walk(node)}
    unknown = {id(below) for node in walk(plan) if isinstance(node, Block) and node.problem for below in walk(node)}
    for node in walk(plan):
        if (
            id(node) in unknown
            or not isinstance(node, Join)
            or not all(any(scan.streaming for scan in scans(side)) for side in (node.left, node.right))
        ):
            continue
        kind, subject = None, ""
        if node.kind not in ("inner", "cross"):
            kind = join_words(node.kind, node.closest)
            subject = "" if node.in_where else written(node.kind, node.closest)
        if node.closest is not None:
            a_join = f"an {kind}" if str(kind).startswith("A") else f"a {kind}"
            why = alone.get(id(node), "it is left to Spark, which does not run it")
            hint = f"{_ONE_SIDE_EACH}, of types that are numbers or times"
            hint = "leave the hint out" if why.startswith("the hint") else hint
            found.append(Refusal(f"{a_join} of streams: {why}", hint, subject))
            continue
        tested = next((p for p in node.predicates if isinstance(p, Residual) and len(p.relations) > 1), None)
        equal = any(is_equality(p.condition) or KINDS[p.kind].equal for p in node.predicates)
        if kind is not None and tested is not None and id(node) in alone and beyond_spark(node, alone=True):
            words = f"{'NOT ' if node.kind == 'anti' else ''}EXISTS or IN" if node.in_where else f"a {kind}"
            found.append(Refusal(f"{words} of streams: {alone[id(node)]}", _ONE_SIDE_EACH, subject))
            continue
        if equal:
            if (at := _waits_for_nothing(node)) is not None:
                reason = f"Spark's {kind} waits for {'.'.join(at)}, and never gives rows that lack a row of {at[0]}"
                hint = f"write its bound with an event time of a relation that {at[0]} is joined with"
                found.append(Refusal(reason, hint, subject))
            if kind is not None and node.kind != "anti" and not _may_bound_times(node):
                words = "EXISTS or IN" if node.in_where else kind
                hint = (UNBOUNDED_OUTER.hint or "").replace("in ON", "in its WHERE" if node.in_where else "in ON")
                found.append(Refusal(UNBOUNDED_OUTER.reason.format(words), hint, subject))
            continue
        if kind is None:
            reason = "a join of streams without an equality is left to Spark, which refuses it"
            hint = "see the reason in EXPLAIN for which the group was left alone, and remove it"
        else:
            reason = f"a {kind} of streams without an equality between its sides"
            hint = "see the reason in EXPLAIN for which it was left to Spark, and remove it"
        found.append(Refusal(reason, hint, subject))
    found += [refusal for node in walk(plan) if isinstance(node, JoinNode) for refusal in _never_emits(node)]
    return tuple(dict.fromkeys(found))


def _never_emits(node: JoinNode) -> Iterator[Refusal]:
    """Yield why a join would never know that a row has no partner, or no closer one."""
    retention = {kept.alias: kept for kept in node.retention}
    for branch in node.branches:
        if branch.waits and branch.anchor in retention and node.graph.most(branch.anchor, branch.relation) is None:
            lacks = "has no partner" if branch.closest is None else "has its closest partners"
            words = join_words(branch.kind, branch.closest)
            reason = f"the {words} with {branch.relation} would never know that a row of {branch.anchor} {lacks}"
            hint = retention[branch.anchor].told or "bound it in its ON"
            yield Refusal(reason, hint, written(branch.kind, branch.closest))
    for kept in node.retention if node.pads else ():
        if kept.alias in node.tested and kept.keep_for is None:
            lacks = "has no partner" if node.closest is None else "has its closest partners"
            reason = f"the {join_words(node.join, node.closest)} would never know that a row of {kept.alias} {lacks}"
            hint = kept.told
            if node.closest is not None and node.closest.by == "distance" and "watermark" not in hint.lower():
                hint = ""  # there is no ON for a condition
            subject = written(node.join, node.closest)
            yield Refusal(reason, hint or "bound it with WITHIN 10 MINUTES after WHERE", subject)


def _waits_for_nothing(join: Join) -> At | None:
    """Return an event time by which an outer join of Spark's keeps rows of a join of ours, if it may be NULL there."""
    kept = {"left": (join.left,), "right": (join.right,), "full": (join.left, join.right)}.get(join.kind, ())
    sides = [side for side in kept if any(isinstance(one, JoinNode) for one in own_tree(side))]
    padded = {(scan.alias, str(scan.event_time).lower()) for side in sides for scan, null in in_results(side) if null}
    read = {at for one in join.predicates for at in one.condition.columns}
    return next((at for at in sorted(read) if (at[0], at[1].lower()) in padded), None)


def _may_bound_times(join: Join) -> bool:
    """Tell whether a condition of an outer join reads what may be an event time: anything but plain values."""
    types = column_types(scans(join))
    read = [at for predicate in join.predicates for at in predicate.condition.columns]
    return not read or any(may_be_event_time(types.get(at, UNKNOWN)) for at in read)
