"""EXISTS, NOT EXISTS and IN over a stream as semi and anti joins: Spark lets no subquery in WHERE read a stream.

Over tables they become joins where WITHIN bounds them, which Spark does not know.

Example: ``FROM r WHERE r.k > 0 AND NOT EXISTS (SELECT 1 FROM s WHERE s.x >= r.x)`` becomes ``FROM r LEFT ANTI JOIN s ON
s.x >= r.x WHERE r.k > 0``. NOT IN stays as it is: over NULLs it is not an anti join.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from .names.scopes import Resolution, ResolvedSelect, Source, expression_type, field_of
from .parse import relation_of, split_and
from .plan.parts import unused
from .sql.dialect import identifier
from .sql.functions import called, of_a_row
from .sql.spark_types import UNKNOWN

#: The clauses that a subquery may have.
_CLAUSES = {"expressions", "from_", "where"}

#: What resolving leaves in a tree.
_NOTES = ("field", "star", "column_name", "cte", "resolved")


def as_semi_joins(resolution: Resolution) -> bool:
    """Rewrite a resolved tree in place; return whether it has changed, so that it is to be resolved anew."""
    changed = False
    blocks = {id(block.select): block for block in resolution.blocks}
    for block in resolution.blocks:
        where = block.select.args.get("where")
        streams = any(source.info and source.info.streaming for source in block.sources)
        if where is None or block.problem or not (streams or block.select.args.get("within")):
            continue
        conjuncts = split_and(where.this)
        taken = {source.alias.lower() for source in block.sources}
        joins = {
            at: join
            for at, one in enumerate(conjuncts)
            if (join := _join(one, block, blocks, taken, streams)) is not None
        }
        if not joins:
            continue
        changed = True
        kept = [one for at, one in enumerate(conjuncts) if at not in joins]
        block.select.set("where", exp.Where(this=exp.and_(*kept, copy=False)) if kept else None)
        block.select.set("joins", [*(block.select.args.get("joins") or []), *joins.values()])
    for node in resolution.tree.walk() if changed else ():
        for note in _NOTES:
            node.meta.pop(note, None)
    return changed


def _join(
    conjunct: exp.Expr, block: ResolvedSelect, blocks: Mapping[int, ResolvedSelect], taken: set[str], streams: bool
) -> exp.Join | None:
    """Return the join that a conjunct is, None if it is none of them over one stream, or table."""
    kind, tested = "SEMI", conjunct.unnest()
    if isinstance(tested, exp.Not):
        kind, tested = "ANTI", tested.this.unnest()
    query = tested.args.get("query") if isinstance(tested, exp.In) and kind == "SEMI" else None
    if isinstance(tested, exp.Exists):
        query = tested.this
    query = query.unnest() if isinstance(query, exp.Expr) else None
    inner = blocks.get(id(query))
    if not isinstance(query, exp.Select) or inner is None or inner.problem or len(inner.sources) != 1:
        return None
    (source,) = inner.sources
    if {key for key, value in query.args.items() if value} - _CLAUSES:
        return None
    if bool(source.info and source.info.streaming) is not streams:
        return None
    nodes = [node for item in query.expressions for node in item.walk()]
    if not all(of_a_row(name) for node in nodes if (name := called(node))):
        return None  # over an aggregate it is true for every row, over a generator it may be false for some
    if any(isinstance(node, exp.Column) and not node.find(exp.Star) and field_of(node) is None for node in nodes):
        return None  # a name that nothing has
    where = query.args.get("where")
    condition = where.this if where is not None else exp.true()
    if isinstance(tested, exp.In):
        same = _equal(tested.this, query)
        if same is None:
            return None
        condition = exp.and_(same, condition) if where is not None else same
    name = unused(source.alias, taken)
    if not _qualified(condition, source, name, block):
        return None
    taken.add(name.lower())
    join = exp.Join(this=relation_of(source, name), side="LEFT", kind=kind, on=condition)
    join.meta["in_where"] = True
    return join


def _equal(tested: exp.Expr, query: exp.Select) -> exp.Expr | None:
    """Return the equality that IN stands for, None unless both sides are known to be of one type."""
    (item, *others) = query.expressions
    value = item.unalias()
    if others or not expression_type(tested) == expression_type(value) != UNKNOWN:
        return None
    return exp.EQ(this=tested, expression=value)


def _qualified(condition: exp.Expr, source: Source, name: str, block: ResolvedSelect) -> bool:
    """Give all columns of a condition the alias of their relation; return False, and change none, if one has none."""
    columns = list(condition.find_all(exp.Column))
    if condition.find(exp.Query, exp.Star, exp.Window):
        return False
    fields = [field_of(column) for column in columns]
    if not all(field is not None and field.source in (source, *block.sources) for field in fields):
        return False
    for column, field in zip(columns, fields, strict=True):
        assert field is not None
        assert field.source is not None
        alias = name if field.source is source else field.source.alias
        column.replace(exp.column(identifier(field.name), identifier(alias)))
    return True
