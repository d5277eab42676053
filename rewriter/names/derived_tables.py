"""Opens derived tables and common table expressions that only project: their joins belong to the group around them."""

from __future__ import annotations

from sqlglot import exp

from ..sql.functions import called, read_anew
from .scopes import JoinTree, Output, ResolvedSelect, Source, Tree, leaves, own_nodes


def open_derived_tables(block: ResolvedSelect) -> None:
    """Open derived tables and CTEs that are plain projections over inner joins, so that their joins join the group."""
    if block.problem:
        return

    def visit(tree: Tree, inner_path: bool) -> Tree:
        if isinstance(tree, JoinTree):
            keep = inner_path and tree.kind == "inner"
            tree.left, tree.right = visit(tree.left, keep), visit(tree.right, keep)
            return tree
        output = tree.query
        if not inner_path or output is None or not _is_plain(tree, output):
            return tree
        inner = output.block
        assert inner is not None
        assert output.columns is not None
        inner.merged = True
        for field, origin in zip(tree.fields or [], output.columns, strict=True):
            field.tree, field.source = origin.tree, None
        return MergedTree(tree, inner)

    if isinstance(block.tree, JoinTree) or _filters_tables(block):
        block.tree = visit(block.tree, True)


def _filters_tables(block: ResolvedSelect) -> bool:
    """Tell whether a SELECT filters a derived table without streams.

    Its conditions move to the scans then, as in Spark. On streams they would be another query to a checkpoint.
    """
    if not isinstance(block.tree, Source) or block.tree.query is None or not block.select.args.get("where"):
        return False
    inner = block.tree.query.block
    known = [] if inner is None else [source.info for source in leaves(inner.tree)]
    if not known or any(info is None or info.streaming is not False for info in known):
        return False
    stars = (one.parent if isinstance(one.parent, exp.Column) else one for one in block.select.find_all(exp.Star))
    return all(one.parent is block.select or called(one.parent) == "count" for one in stars)  # of columns known


class MergedTree(Source):
    """A derived table whose joins take part in the group above it."""

    def __init__(self, source: Source, inner: ResolvedSelect) -> None:
        super().__init__(source.alias, source.item, source.fields, source.parts, source.info, source.definition)
        self.inner = inner


def _is_plain(source: Source, output: Output) -> bool:
    inner = output.block
    if inner is None or inner.problem or inner.merged or output.columns is None:
        return False
    if not isinstance(inner.tree, JoinTree | MergedTree):
        return False
    if source.definition is not None and source.definition.uses > 1:
        return False
    item = source.item
    if source.definition is None and not isinstance(item, exp.Subquery):
        return False
    if any(item.args.get(key) for key in ("sample", "pivots", "with_")):
        return False
    alias = item.args.get("alias")
    if isinstance(alias, exp.Expr) and alias.args.get("watermark"):
        return False
    select = inner.select
    allowed = ("expressions", "from_", "joins", "where", "kind", "operation_modifiers", "with_")
    if any(value for key, value in select.args.items() if key not in allowed) or select.args.get("with_"):
        return False
    if len(source.fields or []) != len(output.columns) or not all(_is_scalar(c.tree) for c in output.columns):
        return False
    where = select.args.get("where")
    if where is not None and any(isinstance(node, exp.Query) or read_anew(node) for node in own_nodes(where)):
        return False
    return _all_inner(inner.tree)


def _all_inner(tree: Tree) -> bool:
    if isinstance(tree, JoinTree):
        return tree.kind == "inner" and _all_inner(tree.left) and _all_inner(tree.right)
    return tree.problem is None


def _is_scalar(tree: exp.Expr | None) -> bool:
    """Tell whether an expression may be repeated anywhere: columns, literals, operators and casts, no calls."""
    if tree is None:
        return False
    for node in own_nodes(tree):
        if isinstance(node, exp.Query | exp.Window | exp.Placeholder):
            return False
        if isinstance(node, exp.Func) and not isinstance(node, exp.Cast | exp.Case | exp.If | exp.And | exp.Or):
            return False
    return True
