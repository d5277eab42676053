"""The rewriter's meaning without our operators: every join node as plain Spark SQL.

A rewrite is right if the SQL of its plan, with each join node defined by `node_sql`, gives the rows of the user's SQL.
"""

from __future__ import annotations

from trijoin_sql.rewriter.pipeline import Rewrite
from trijoin_sql.rewriter.plan.conjuncts import Band, Either, KernelPredicate, Term
from trijoin_sql.rewriter.plan.nodes import JoinNode, Node, source_conditions, source_scan
from trijoin_sql.rewriter.plan.parts import Aggregation
from trijoin_sql.rewriter.sql.dialect import quote

OPS = {"=": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "<>": "<>"}


def views(rewrite: Rewrite) -> list[tuple[str, str]]:
    """Return ``(name, SQL)`` of every join node, inputs first."""
    found: dict[str, str] = {}

    def visit(node: Node) -> None:
        for below in node.inputs:
            visit(below)
        if isinstance(node, JoinNode):
            found[node.name] = node_sql(node)

    assert rewrite.plan is not None
    visit(rewrite.plan)
    return list(found.items())


def node_sql(node: JoinNode) -> str:
    """Return what a join node computes, as Spark SQL."""
    inputs = {}
    for source in node.sources:
        scan, conditions = source_scan(source), source_conditions(source)
        alias = quote(scan.alias)
        where = f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""
        ctes = f"WITH {', '.join(f'{quote(name)} AS ({sql})' for name, sql in scan.ctes)} " if scan.ctes else ""
        inputs[scan.alias] = f"({ctes}SELECT * FROM {scan.relation} AS {alias}{where}) AS {alias}"
    scans = [source_scan(source) for source in node.sources]
    dates = {(scan.alias, column.name) for scan in scans for column in scan.columns if column.type == "date"}
    items = ", ".join(f"{quote(o.relation)}.{quote(o.column)} AS {quote(o.name)}" for o in node.output)
    optional = {one.relation for one in node.branches}
    edges = [edge for edge in node.graph.edges if optional.isdisjoint((edge.left, edge.right))]
    predicates = [predicate_sql(p, dates) for edge in edges for p in edge.predicates]
    if node.join not in ("inner", "mixed"):
        left, right = inputs
        if node.settles:
            return _settled_sql(node, inputs[left], inputs[right], [*predicates, *(one.sql for one in node.matching)])
        return f"SELECT {items} FROM {inputs[left]} {_joined(node.join, inputs[right], predicates, node.matching)}"
    core = " CROSS JOIN ".join(text for one, text in inputs.items() if one not in optional)
    where = f" WHERE {' AND '.join(predicates)}" if predicates else ""
    if node.aggregation is not None:
        return _groups_sql(node.aggregation, f"FROM {core}{where}")
    residuals = " AND ".join(f"({p.condition.sql})" for p in node.graph.residuals)
    for branch in node.branches:
        edge = node.graph.edge(branch.anchor, branch.relation)
        on = [predicate_sql(p, dates) for p in edge.predicates] if edge is not None else []
        core += f" {_joined(branch.kind, inputs[branch.relation], on, branch.matching)}"
    joined = f"SELECT {items} FROM {core}{where}"
    return f"SELECT * FROM ({joined}) WHERE {residuals}" if residuals else joined


def _settled_sql(node: JoinNode, tested: str, pairs: str, conditions: list[str]) -> str:
    """Return what an outer join puts out whose pairs are found below it: these, and the rows without one."""
    given = {column.name: column for column in node.settles or ()}
    through = (given.get(one.name, one) for one in node.output)
    columns = ", ".join(f"{quote(one.relation)}.{quote(one.column)} AS {quote(one.name)}" for one in through)
    alone = ", ".join(
        f"{quote(one.relation)}.{quote(one.column)} AS {quote(one.name)}"
        if one.name in given
        else f"NULL AS {quote(one.name)}"
        for one in node.output
    )
    anti = f"SELECT {alone} FROM {tested} LEFT ANTI JOIN {pairs} ON {' AND '.join(conditions)}"
    return f"SELECT {columns} FROM {pairs} UNION ALL {anti}"


def _joined(kind: str, relation: str, predicates: list[str], matching: tuple[Term, ...]) -> str:
    conditions = " AND ".join([*predicates, *(f"({one.sql})" for one in matching)]) or "true"
    word = f"LEFT {kind}" if kind in ("semi", "anti") else kind
    return f"{word.upper()} JOIN {relation} ON {conditions}"


def _groups_sql(aggregation: Aggregation, source: str) -> str:
    """Return what units put out: groups with their states, each group in up to three parts."""
    columns = [f"{one.term.sql if one.term else 1} AS {one.name}" for one in aggregation.columns]
    part = "pmod(monotonically_increasing_id(), 3) AS __part"
    states = [
        f"CAST({state.function}({state.name}) AS {state.type}) AS {state.name}"
        if state.type != "unknown"
        else f"{state.function}({state.name}) AS {state.name}"
        for state in aggregation.states
    ]
    keys = [key.name for key in aggregation.keys]
    inner = f"SELECT {', '.join([*columns, part])} {source}"
    return f"SELECT {', '.join([*keys, *states])} FROM ({inner}) GROUP BY {', '.join([*keys, '__part'])}"


def predicate_sql(predicate: KernelPredicate, dates: set[tuple[str, str]]) -> str:
    """Return a kernel predicate as the kernel evaluates it; ``dates`` are the columns of that type."""
    if isinstance(predicate, Either):
        branches = (" AND ".join(f"({predicate_sql(one, dates)})" for one in branch) for branch in predicate.branches)
        return f"({' OR '.join(branches)})"
    left, right = predicate.left.sql, predicate.right.sql
    if not isinstance(predicate, Band):
        return f"({left}) {OPS[predicate.op]} ({right})"
    band = predicate.bounds
    bounds = []
    is_time = band.timed
    difference = f"CAST({left} AS BIGINT) - CAST({right} AS BIGINT)"
    if band.rounded or band.unit.startswith("decimal"):
        difference = f"(({left}) - ({right}))"
    if is_time and "TIMESTAMP_NTZ" in left:
        difference = f"(({left}) - ({right}))"
    elif is_time:
        difference = f"make_dt_interval(0, 0, 0, (unix_micros({left}) - unix_micros({right})) / 1e6BD)"
    elif dates & set(predicate.left.columns):
        difference = f"datediff({left}, {right})"
    if band.lower is not None:
        bounds.append(f"{band.text_of(band.lower)} {'<=' if band.lower_inclusive else '<'} {difference}")
    if band.upper is not None:
        bounds.append(f"{difference} {'<=' if band.upper_inclusive else '<'} {band.text_of(band.upper)}")
    if band.rounded and not band.nan:
        bounds.append(f"NOT isnan({difference})")
    return " AND ".join(bounds)
