"""Inputs of a join node: what Spark computes of each relation before a row reaches the kernel.

Filters, pruning and every key expression are Spark's (its code generation, its semantics); the kernel only compares
columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (PySpark's custom)
from pyspark.sql.types import StructField, UserDefinedType

from ...errors import UnsupportedQueryError
from ...rewriter.plan.conjuncts import KernelPredicate
from ...rewriter.plan.joins import Branch, join_words
from ...rewriter.plan.nodes import JoinNode, Node, Scan, source_conditions, source_scan
from .compiling import Compiling, NotAsPlannedError
from .logical_plans import calls_python, is_lasting, items, plan_of, walk
from .travel_types import quoted, to_wire, travels, type_names
from .watermarks import DELAY, held_back, with_all_rows

#: The column of an input with the whole row as JSON, and how Spark writes that: all columns, times to the microsecond.
_WHOLE = "whole"
_AS_JSON = (
    "MAP('ignoreNullFields', 'false', 'timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")"
)

#: A relation's bare column.
_BARE = re.compile(r"(?:`((?:[^`]|``)+)`|(\w+))\.(?:`((?:[^`]|``)+)`|(\w+))")


#: In the filters of an alias, what Spark computes in a WHERE clause only.
_SUBQUERY = re.compile(r"\bselect\b", re.IGNORECASE)

#: A node of Spark's plan, as text, that takes other rows for each alias although its expressions are deterministic.
_SAMPLE = re.compile(r"[-~ ]Sample \d|^Sample \d", re.MULTILINE)


@dataclass(slots=True)
class Input:
    """One input while a node is compiled: Spark's columns of it, and the packed columns decided so far.

    Parameters
    ----------
    alias
        Its alias.
    frame
        Columns ``v0``, ``v1`` ... as read.
    read
        What each of them is: ``("column", name)``, ``("key", sql)``, ``("guard", sql)`` or ``("argument", sql)`` (of an
        aggregation) to the frame's column.
    types
        DDL names of the frame's columns.
    outputs
        Wanted columns as ``(column, output name)``.
    event_time
        The column with a watermark, None if there is none (or the input is not a stream).
    above
        The joins of earlier statements in it whose watermark is held back, by key.
    whole
        The frame's column with the whole row as JSON, None unless late rows may be asked for.
    keep
        The frame's column that says which rows are this input's, where it is read together with others; None for all.
    packed
        The packed columns by name.
    values
        What is in packed columns, in a text that is alike for all inputs that are read together.
    required
        Packed columns that a predicate rejects if NULL, with the user's text of each: such rows never join.
    """

    alias: str
    frame: DataFrame
    read: dict[tuple[str, str], str]
    types: dict[str, str]
    outputs: list[tuple[str, str]]
    event_time: str | None = None
    above: tuple[str, ...] = ()
    whole: str | None = None
    keep: str | None = None
    packed: dict[str, Column] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)
    required: dict[str, str] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)

    def anew(self) -> Input:
        """Return the same input with nothing packed."""
        return replace(self, packed={}, values={}, required={}, _names={})

    def type_of(self, what: str, text: str) -> str:
        """Return the type of a column or key that was read."""
        return self.types[self.read[what, text]]

    def fields(self) -> Iterator[tuple[str, StructField]]:
        """Yield the outputs, with the field of each here."""
        schema = self.frame.schema
        for column, name in self.outputs:
            yield name, schema[self.read["column", column]]

    def pack(self, column: Column, identity: str, value: str | None = None) -> str:
        """Return the packed name of a column; the same ``identity`` is packed once.

        ``value`` says what is in it, alike for all inputs that are read together; None if that is not known.
        """
        if identity not in self._names:
            name = f"c{len(self._names)}"
            self._names[identity] = name
            self.packed[name] = column
            self.values[name] = value or f"{identity} of {self.alias}"
        return self._names[identity]

    def pack_read(self, what: str, text: str, type_name: str | None = None) -> str:
        """Pack a column or key that was read, cast to a type."""
        name = self.read[what, text]
        wanted = type_name or self.types[name]
        value = f"{name} as {wanted}"
        return self.pack(to_wire(self.cast(what, text, wanted), wanted), value, value)

    def cast(self, what: str, text: str, type_name: str) -> Column:
        """Return a column or key that was read, cast to a type."""
        name = self.read[what, text]
        return F.col(name) if self.types[name] == type_name else F.col(name).cast(type_name)

    def require_matching(self, conditions: Iterable[str]) -> None:
        """Make rows for which a condition of ON on this side alone is not true never join."""
        for text in conditions:
            self.required.setdefault(self.pack_read("matching", text), text)

    def guards(self) -> list[Column]:
        """Return the columns that Spark must compute although nobody needs their value."""
        return [F.col(name) for (what, _), name in self.read.items() if what == "guard"]


def read_inputs(compiling: Compiling, node: JoinNode) -> dict[str, Input]:
    """Let Spark read the inputs, by alias in plan order: one source once, however many aliases it has."""
    together: dict[Any, list[Node]] = {}
    for source in node.sources:
        together.setdefault(_reads(source) if compiling.together else id(source), []).append(source)
    found: dict[str, Input] = {}
    for sources in together.values():
        read = _read_together(compiling, node, _by_delay(compiling, sources)) if len(sources) > 1 else None
        for source in sources:
            alias = source_scan(source).alias
            found[alias] = read[alias] if read else _read_input(compiling, node, source)
    return {alias: found[alias] for alias in (source_scan(source).alias for source in node.sources)}


def _reads(source: Node) -> Any:
    """Return what is equal for two inputs that are one source, and of which Spark can compute both from one row.

    Two aliases of a SELECT may stand for different rows: what is not deterministic in it is found in Spark's plan. The
    delays of their watermarks may differ: they may change at a restart, and the sources of a checkpoint may not.
    """
    scan = source_scan(source)
    if _SUBQUERY.search(" ".join(source_conditions(source))):
        return id(source)
    text = (scan.relation, scan.ctes) if scan.delay is None else scan.lasting
    return text, scan.event_time, scan.delay is None, scan.streaming, scan.stateful


def _by_delay(compiling: Compiling, sources: list[Node]) -> list[Node]:
    """Return inputs that are one source in such an order that its watermark is that of the first.

    Spark goes by the watermark that is furthest behind, or ahead, of all that are declared.
    """
    if len({source_scan(source).delay for source in sources}) == 1:
        return sources
    furthest = str(compiling.spark.conf.get("spark.sql.streaming.multipleWatermarkPolicy")).lower() == "max"
    return sorted(sources, key=lambda source: source_scan(source).delay or 0, reverse=not furthest)


def _read_input(compiling: Compiling, node: JoinNode, source: Node) -> Input:
    """Let Spark read one input: filters, the columns that are wanted, every key expression, every guard."""
    scan = source_scan(source)
    texts = _texts(node, scan)
    # Named in the text: a projection for the names alone would be one more for Spark to optimise every micro-batch.
    names = {text: f"v{number}" for number, text in enumerate(dict.fromkeys(texts.values() or ["1"]))}
    columns = [f"{text} AS {name}" for text, name in names.items()]
    conditions = source_conditions(source)
    where = f" WHERE {_conjunction(conditions)}" if conditions else ""
    whole = [_whole(scan)] if _asks_for_late_rows(compiling, node, scan) else []
    frame = f"SELECT {', '.join([*columns, *whole])} FROM {scan.relation} AS {quoted(scan.alias)}{where}"
    read = {item: names[text] for item, text in texts.items()}
    return _inputs(compiling, node, frame, [(scan, read)])[scan.alias]


def _read_together(compiling: Compiling, node: JoinNode, sources: list[Node]) -> dict[str, Input] | None:
    """Let Spark read a source once for several aliases; None where it has to be read for each.

    In the text each alias is a struct of the source's row, which Spark's optimiser takes apart again. What the filters
    of an alias keep is a column, and nothing that might fail is computed of rows that they drop.
    """
    if not hasattr(compiling.spark, "_jsparkSession"):
        return None  # Spark Connect does not show whether the plan is deterministic
    scans = [source_scan(source) for source in sources]
    first, *_ = scans
    kept = {scan.alias: source_conditions(source) for scan, source in zip(scans, sources, strict=True)}
    names: dict[str, str] = {}
    read: list[tuple[Scan, dict[tuple[str, str], str]]] = []
    for scan in scans:
        own: dict[tuple[str, str], str] = {}
        for item, text in _texts(node, scan).items():
            if bare := _BARE.fullmatch(text):
                text = f"{quoted(first.alias)}.{quoted((bare[3] or bare[4]).replace('``', '`'))}"
            else:
                text = _where(kept[scan.alias], text, "NULL")
            own[item] = names.setdefault(text, f"v{len(names)}")
        read.append((scan, own))
    columns = [f"{text} AS {name}" for text, name in (names or {"1": "v0"}).items()]
    keeps = {alias: f"k{number}" for number, (alias, conditions) in enumerate(kept.items()) if conditions}
    columns += [f"{_where(kept[alias], 'true', 'false')} AS {name}" for alias, name in keeps.items()]
    whole = [_whole(first)] if _asks_for_late_rows(compiling, node, first) else []
    structs = ", ".join(f"STRUCT(*) AS {quoted(scan.alias)}" for scan in scans)
    any_of_them = " OR ".join(f"({_conjunction(conditions)})" for conditions in kept.values())
    where = f" WHERE {any_of_them}" if all(kept.values()) else ""
    frame = f"SELECT {', '.join([*columns, *whole])} FROM (SELECT {structs} FROM {first.relation} AS __rows){where}"
    try:
        found = _inputs(compiling, node, frame, read, keeps)
    except AnalysisException:  # such as for a hidden column of the source, which no struct has
        return None
    plan = plan_of(found[first.alias].frame)
    if keeps and calls_python(compiling.spark, plan):
        return None  # a filter has to be below the function
    return found if plan.deterministic() and not _SAMPLE.search(str(plan.toString())) else None


def _conjunction(conditions: Iterable[str]) -> str:
    return " AND ".join(f"({condition})" for condition in conditions)


def _where(conditions: Iterable[str], text: str, otherwise: str) -> str:
    """Return an expression that is computed where conditions are true, each of which only where those before it are.

    Where AND stands in a projection, Spark computes what two expressions in it have in common before either.
    """
    for condition in reversed(tuple(conditions)):
        text = f"IF({condition}, {text}, {otherwise})"
    return text


def _with(scan: Scan) -> str:
    return f"WITH {', '.join(f'{quoted(name)} AS ({body})' for name, body in scan.ctes)} " if scan.ctes else ""


def _texts(node: JoinNode, scan: Scan) -> dict[tuple[str, str], str]:
    """Return what is wanted of an input, as Spark SQL.

    What is wanted for two reasons (as a key, and in the output) has one text: it is read, sent and stored once.
    """
    predicates = [predicate for edge in node.graph.edges for predicate in edge.predicates]
    always = _always_met(node, scan.alias)
    alias = quoted(scan.alias)
    texts: dict[tuple[str, str], str] = {}
    for column, _ in _outputs(node, scan):
        texts["column", column] = f"{alias}.{quoted(column)}"
    for predicate in predicates:
        what = {"key": predicate.keys, "guard": predicate.guards}
        texts |= {
            (name, one.sql): one.sql for name, some in what.items() for one in some if scan.alias in one.relations
        }
    matching = [one.sql for one in node.matching if scan.alias in one.relations]
    texts |= {("matching", one): _where(matching[: at + 1], "true", "NULL") for at, one in enumerate(matching)}
    for branch in node.branches:
        if own := branch_matching(branch, scan.alias):
            texts["matching", " AND ".join(own)] = _where(own, "true", "NULL")
            matching = own if scan.alias == branch.relation else matching
    compared = (one for closest in node.looks for one in closest.compared)
    texts |= {("key", one.sql): one.sql for one in compared if scan.alias in one.relations}
    if node.aggregation is not None:
        terms = node.aggregation.terms
        texts |= {("argument", one.sql): one.sql for one in terms if scan.alias in one.relations}
    if scan.event_time is not None:
        texts["time", scan.event_time] = f"{alias}.{quoted(scan.event_time)}"
    texts = {item: _as_column(text, scan.alias) for item, text in texts.items()}
    # Of tables, Spark has filtered rows with NULL in a joined column; of streams, the dispatcher counts and drops them.
    return _computed_of_joinable(texts, always if scan.streaming else [], matching, scan.alias)


def branch_matching(branch: Branch, alias: str) -> list[str]:
    """Return the conditions of a branch's ON over one of its two relations alone."""
    return [one.sql for one in branch.matching if alias in one.relations]


def _always_met(node: JoinNode, alias: str) -> list[KernelPredicate]:
    """Return the predicates that each result with a row of a relation fulfils: of a core, those of its inner joins."""
    optional = set(node.graph.optional) - {alias}
    edges = (edge for edge in node.graph.edges if optional.isdisjoint((edge.left, edge.right)))
    return [predicate for edge in edges for predicate in edge.predicates]


def _outputs(node: JoinNode, scan: Scan) -> list[tuple[str, str]]:
    output = (*node.output, *(node.settles or ()))
    return [(column.column, column.name) for column in output if column.relation == scan.alias]


def _asks_for_late_rows(compiling: Compiling, node: JoinNode, scan: Scan) -> bool:
    asked = compiling.late_rows and scan.alias not in node.candidates_of
    return bool(asked and scan.streaming and scan.event_time and not scan.stateful)


def _whole(scan: Scan) -> str:
    return f"TO_JSON(STRUCT({quoted(scan.alias)}.*), {_AS_JSON}) AS {_WHOLE}"


def _inputs(
    compiling: Compiling,
    node: JoinNode,
    text: str,
    read: list[tuple[Scan, dict[tuple[str, str], str]]],
    keeps: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Input]:
    """Let Spark run the text that reads a source; return the inputs that it is for, by alias.

    Parameters
    ----------
    read
        Its inputs, each with the column of each of its texts.
    keeps
        By alias, the column that says which rows its filters keep.
    """
    first, _ = read[0]
    frame = compiling.run_sql(_with(first) + text)
    for scan, names in read:
        _check_lasting(node, scan, names, frame)
    frame, above = _held_back(frame, node.held_back, first, str(compiling.number))
    if (node.pads or node.candidates_of) and frame.isStreaming and hasattr(frame, "_jdf") and not first.stateful:
        frame = with_all_rows(frame, f"trijoin_rows_{compiling.number}_{node.name}_{first.alias}")
    types = dict(zip(frame.schema.names, type_names(frame), strict=True))
    whole = _WHOLE if _asks_for_late_rows(compiling, node, first) else None
    found = {}
    for scan, names in read:
        outputs = _outputs(node, scan)
        _check_payload(scan, outputs, names, frame)
        event_time = _event_time(scan, frame, names, types)
        found[scan.alias] = Input(
            scan.alias, frame, names, types, outputs, event_time, above, whole, keeps.get(scan.alias)
        )
    return found


def _computed_of_joinable(
    texts: Mapping[tuple[str, str], str], predicates: list[KernelPredicate], matching: list[str], alias: str
) -> dict[tuple[str, str], str]:
    """Return texts in which expressions are computed only of rows that can join by the bare columns of predicates, and
    by the conditions of ON on this side alone.

    Spark's own join never computes the other ones, so they must not fail on such rows.
    """
    keys = (
        texts["key", one.sql]
        for predicate in predicates
        if predicate.rejects_null
        for one in predicate.keys
        if alias in one.relations
    )
    there = [f"{key} IS NOT NULL" for key in dict.fromkeys(keys) if _BARE.fullmatch(key)]
    given = [" AND ".join(there)] if there else []
    found = {}
    for item, text in texts.items():
        # the other texts are in the rows of an outer join, too
        tested = [*given, *matching] if item[0] in ("key", "guard") else given
        found[item] = text if _BARE.fullmatch(text) else _where(tested, text, "NULL")
    return found


def _as_column(text: str, alias: str) -> str:
    """Return a relation's bare column in the spelling that we give it, and any other expression as it is."""
    found = _BARE.fullmatch(text)
    if found is None or (found[1] or found[2]).replace("``", "`") != alias:
        return text
    return f"{quoted(alias)}.{quoted((found[3] or found[4]).replace('``', '`'))}"


def _check_lasting(node: JoinNode, scan: Scan, read: Mapping[tuple[str, str], str], frame: DataFrame) -> None:
    """Leave to Spark, over the results, what it may compute otherwise later: a stored key would stay what it was.

    The rewriter knows such functions by name, Spark all of them: a user's own, too. Spark Connect does not show it.
    """
    if not hasattr(frame, "_jdf"):
        return
    plan = plan_of(frame)
    if is_lasting(frame.sparkSession, plan):
        return
    if node.settles is not None and not plan.deterministic():
        told = f"the {join_words(node.join, node.closest)} reads {scan.alias} twice, to let Spark test pairs of rows"
        reason = f"{told}, and a column or a filter of it has another value each time"
        raise UnsupportedQueryError(reason, "compute it before, once")
    project = next(step.node for step in walk(plan) if step.name == "Project")
    columns = {str(one.name()): one for one in items(project.projectList())}
    anew = {name for name, one in columns.items() if not is_lasting(frame.sparkSession, one)}
    for edge in node.graph.edges:
        for predicate in edge.predicates:
            if any(read.get(("key", one.sql)) in anew for one in predicate.keys):
                raise NotAsPlannedError(f"it has another value each time, or later: {predicate.sql}", predicate.sql)
    if any(what == "argument" and name in anew for (what, _), name in read.items()):
        raise NotAsPlannedError("what is aggregated has another value each time, or later")


def _check_payload(
    scan: Scan, outputs: list[tuple[str, str]], read: Mapping[tuple[str, str], str], frame: DataFrame
) -> None:
    """Refuse output columns that cannot reach Python and come back as they were."""
    fields = {field.name: field for field in frame.schema.fields}
    for column, _ in outputs:
        kind = fields[read["column", column]].dataType
        of_user = isinstance(kind, UserDefinedType)
        if not travels(kind) or (of_user and not hasattr(frame, "_jdf")):
            instead = f"ST_AsBinary({column}) or the like" if of_user else f"CAST({column} AS STRING), or parts of it,"
            raise UnsupportedQueryError(
                f"column {scan.alias}.{column} has the type {kind.simpleString()}, which cannot pass through the join",
                f"Join on a subquery that selects {instead} in its place.",
            )


def _event_time(
    scan: Scan, frame: DataFrame, read: Mapping[tuple[str, str], str], types: Mapping[str, str]
) -> str | None:
    """Return the column with the watermark; one of another type than TIMESTAMP does not say when state may go."""
    if scan.event_time is None or not frame.isStreaming:
        return None
    name = read["time", scan.event_time]
    field = next(field for field in frame.schema.fields if field.name == name)
    marked = bool(scan.first_of) or DELAY in (field.metadata or {})  # Spark marks no expression
    return scan.event_time if types[name] == "timestamp" and marked else None


def _held_back(frame: DataFrame, micros: int, scan: Scan, statement: str) -> tuple[DataFrame, tuple[str, ...]]:
    """Hold back the watermark of an input, unless what makes its rows goes by Spark's own."""
    if not micros or not frame.isStreaming or scan.event_time is None or scan.stateful or not hasattr(frame, "_jdf"):
        return frame, ()  # on Spark Connect the text of the input holds it back
    return held_back(frame, micros, statement)
