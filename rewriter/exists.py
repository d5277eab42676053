"""EXISTS, NOT EXISTS and IN over a stream as semi and anti joins: Spark lets no subquery in WHERE read a stream.

Over tables they become joins where WITHIN bounds them, which Spark does not know.

Example: ``FROM r WHERE r.k > 0 AND NOT EXISTS (SELECT 1 FROM s WHERE s.x >= r.x)`` becomes ``FROM r LEFT ANTI JOIN s ON
s.x >= r.x WHERE r.k > 0``. NOT IN stays as it is: over NULLs it is not an anti join.

Whether a subquery has a row, and which values it has, does not depend on DISTINCT, ORDER BY or GROUP BY of columns; the
former does not depend on a LIMIT either, if it is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from .names.scopes import Resolution, ResolvedSelect, Source, expression_type, field_of
from .parse import relation_of, split_and
from .plan.comparison import common_type
from .plan.parts import unused
from .sql.catalog import TypesOf
from .sql.dialect import identifier, quote, render
from .sql.functions import called, of_a_row
from .sql.spark_types import UNKNOWN

#: The clauses that a subquery may have.
_CLAUSES = {"expressions", "from_", "where", "distinct", "order", "group", "limit"}

#: What resolving leaves in a tree.
_NOTES = ("field", "star", "column_name", "cte", "resolved")


def as_semi_joins(resolution: Resolution, ask: TypesOf) -> bool:
    """Rewrite a resolved tree in place; return whether it has changed, so that it is to be resolved anew.

    ``ask`` tells Spark's types of expressions, where there is a Spark.
    """
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
            if (join := _join(one, block, blocks, taken, streams, ask)) is not None
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
    conjunct: exp.Expr,
    block: ResolvedSelect,
    blocks: Mapping[int, ResolvedSelect],
    taken: set[str],
    streams: bool,
    ask: TypesOf,
) -> exp.Join | None:
    """Return the join that a conjunct is, None if it is none of them over one stream, or table."""
    kind, tested = "SEMI", conjunct.unnest()
    while isinstance(tested, exp.Not):
        kind, tested = "SEMI" if kind == "ANTI" else "ANTI", tested.this.unnest()
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
    if not _keeps_answer(query, only_exists=isinstance(tested, exp.Exists)):
        return None
    nodes = [node for item in query.expressions for node in item.walk()]
    if any(isinstance(node, exp.Column) and not node.find(exp.Star) and field_of(node) is None for node in nodes):
        return None  # a name that nothing has
    ordered = query.args.get("order")
    sorts = [one.this for one in ordered.expressions] if ordered else []
    if not _of_each_row([*(item.unalias() for item in query.expressions), *sorts], ask):
        return None  # over an aggregate it is true for every row, over a generator it may be false for some
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


def _of_each_row(items: Sequence[exp.Expr], ask: TypesOf) -> bool:
    """Tell whether expressions have one value for each row, as far as is known; Spark knows it of its user's functions.

    Spark allows no aggregate beside a bare column, and no generator within a call.
    """
    asked = [item for item in items if not all(of_a_row(name) for name in map(called, item.walk()) if name)]
    if not asked:
        return True
    columns = {("__row", "__row"): "int"}
    for column in (column for item in asked for column in item.find_all(exp.Column)):
        field = field_of(column)
        if field is None or field.source is None or field.type == UNKNOWN:
            return False
        columns[field.source.alias, field.name] = field.type
    texts = [f"STRUCT({render(item)})" for item in asked]
    return bool(ask([*texts, f"{quote('__row')}.{quote('__row')}"], columns))


def _keeps_answer(query: exp.Select, *, only_exists: bool) -> bool:
    """Tell whether the clauses behind WHERE change nothing of what is asked: if there is a row, or which values."""
    distinct, group, limit = (query.args.get(key) for key in ("distinct", "group", "limit"))
    plain = {"expressions"}  # ROLLUP adds rows, and so does GROUP BY ()
    if group is not None and ({key for key, value in group.args.items() if value} != plain or not _columns(group)):
        return False
    if distinct is not None and distinct.args.get("on") is not None:
        return False
    if limit is None:
        return True
    count = limit.args.get("expression")
    return only_exists and isinstance(limit, exp.Limit) and isinstance(count, exp.Literal) and int(count.name) > 0


def _columns(group: exp.Expr) -> bool:
    return all(isinstance(one, exp.Column) for one in group.expressions)


def _equal(tested: exp.Expr, query: exp.Select) -> exp.Expr | None:
    """Return the equalities that IN stands for, None unless ``=`` is known to compare them in the type that IN does."""
    sides = tested.expressions if isinstance(tested, exp.Tuple) else [tested]
    values = [item.unalias() for item in query.expressions]
    if len(sides) != len(values) or not all(map(_alike, sides, values)):
        return None
    return exp.and_(
        *(exp.EQ(this=side, expression=value) for side, value in zip(sides, values, strict=True)), copy=False
    )


def _alike(one: exp.Expr, other: exp.Expr) -> bool:
    kinds = expression_type(one), expression_type(other)
    if UNKNOWN in kinds:
        return False
    return kinds[0] == kinds[1] or ("string" not in kinds and common_type(*kinds) is not None)


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
