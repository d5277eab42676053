"""Name resolution by Spark's rules: the relation that each column of a query belongs to.

`resolve` walks a statement and attaches a `Field` to every column that belongs to a relation of some SELECT. Nothing is
renamed here: the tree stays as the user wrote it, and `render` later replaces just the columns of converted groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace

from sqlglot import exp

from ..options import DEFAULTS, Settings
from ..plan.parts import RowsFrom
from ..sql.catalog import Catalog, TableInfo, Time
from ..sql.dialect import closest_of, render
from ..sql.functions import WITHOUT_PARENTHESES, called
from ..sql.spark_types import UNKNOWN
from .having import bare_names, grouped_columns, has_subtotals, unsure
from .lookup import Names, column_of
from .misnamed import misnamed
from .scopes import (
    Cte,
    Field,
    Frame,
    JoinTree,
    Misnamed,
    Output,
    Resolution,
    ResolvedSelect,
    Source,
    Tree,
    Unresolvable,
    either,
    in_aggregate,
    join_kind,
    keeps_state,
    marked,
    own_nodes,
    times_of,
    windows_of,
)
from .struct_names import keep_field_name


def resolve(tree: exp.Expr, catalog: Catalog, settings: Settings = DEFAULTS) -> Resolution:
    """Resolve every name of a query. The tree is annotated in place; give a copy."""
    resolver = _Resolver(catalog, settings)
    output = resolver.query(tree, {}, [])
    return Resolution(tree, resolver.blocks, output, resolver.misnamed)


class _Resolver(Names):
    def __init__(self, catalog: Catalog, settings: Settings) -> None:
        super().__init__(settings.case_sensitive)
        self.catalog = catalog
        self.join_before_comma = settings.join_before_comma
        self.blocks: list[ResolvedSelect] = []
        self.misnamed: list[Misnamed] = []

    # ------------------------------------------------------------------------------------------------------- queries

    def query(self, tree: exp.Expr, ctes: Mapping[str, Cte], outer: list[Frame]) -> Output:
        with_ = tree.args.get("with_")
        if with_:
            ctes = self.with_clause(with_, ctes, outer)
        match tree:
            case exp.Select():
                return self.select(tree, ctes, outer)
            case exp.SetOperation():
                left = self.query(tree.left, ctes, outer)
                right = self.query(tree.right, ctes, outer)
                ordered = [] if tree.args.get("by_name") else right.columns or []
                columns = left.columns and _common_columns(left.columns, ordered)
                streaming = either(left.streaming, right.streaming)
                together = isinstance(tree, exp.Union) and not (tree.args.get("distinct") or tree.args.get("by_name"))
                stateful = not together or left.stateful or right.stateful
                times = _of_both(left, right) if together else ()
                behind, branches = max(left.behind, right.behind), (left, right)
                return Output(columns, None, streaming, times, stateful=stateful, behind=behind, branches=branches)
            case exp.Subquery():
                return replace(self.query(tree.this, ctes, outer), block=None)
        for node in own_nodes(tree):
            if isinstance(node, exp.Query) and node is not tree:
                self.query(node, ctes, outer)
        return Output(None)

    def with_clause(self, with_: exp.Expr, ctes: Mapping[str, Cte], outer: list[Frame]) -> Mapping[str, Cte]:
        scope = dict(ctes)
        for node in with_.expressions:
            name = node.alias
            if with_.args.get("recursive"):
                scope[self.key(name)] = node.meta["cte"] = Cte(name, node, Output(None), recursive=True)
                self.query(node.this, scope, outer)
                continue
            output = self.renamed(self.query(node.this, scope, outer), node.args["alias"].columns)
            scope[self.key(name)] = node.meta["cte"] = Cte(name, node, output)
        return scope

    def renamed(self, output: Output, names: list[exp.Identifier]) -> Output:
        if not names or output.columns is None or len(names) != len(output.columns):
            return output
        columns = [Field(f.source, n.name, f.type, f.tree) for f, n in zip(output.columns, names, strict=True)]
        new = dict(zip((f.name for f in output.columns), (f.name for f in columns), strict=True))
        return replace(output, columns=columns, times=tuple((new[name], delay) for name, delay in output.times))

    def select(self, select: exp.Select, ctes: Mapping[str, Cte], outer: list[Frame]) -> Output:
        from_ = select.args.get("from_")
        if not from_:
            empty = Frame([], [])
            try:
                self.clauses(select, empty, ctes, outer)
            except Unresolvable as reason:
                _spoil(outer, str(reason))
            return Output(self.projections(select, empty), streaming=False)
        problem = None
        try:
            tree, frame = self.from_clause(from_.this, select.args.get("joins") or [], ctes, outer)
        except Unresolvable as reason:
            problem = str(reason)
            tree, frame = self.fallback(select, ctes, outer)
        block = ResolvedSelect(len(self.blocks), select, tree, frame, ctes, problem)
        self.blocks.append(block)
        try:
            for lateral in select.args.get("laterals") or []:
                frame = self.lateral_view(lateral, frame, ctes, outer)
            block.frame = frame
            self.clauses(select, frame, ctes, outer)
        except Unresolvable as reason:
            block.problem = block.problem or str(reason)
        block.problem = block.problem or frame.problem
        if block.problem:
            _spoil(outer, block.problem)
        streaming = either(*(s.info.streaming if s.info else None for s in block.sources))
        columns = self.projections(select, frame)
        times, stateful = times_of(select, columns), keeps_state(select, block.sources)
        behind = max((s.info.behind for s in block.sources if s.info), default=0)
        return Output(columns, block, streaming, times, *_rows_of(select, block.sources), stateful, behind)

    def fallback(self, select: exp.Select, ctes: Mapping[str, Cte], outer: list[Frame]) -> tuple[Tree, Frame]:
        """Resolve what is inside the FROM of a SELECT that is left alone, and list its relations."""
        items = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])]
        sources = []
        for item in items:
            for node in own_nodes(item):
                if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
                    if "resolved" not in node.meta:
                        self.query(node.this, ctes, outer)
                elif isinstance(node, exp.Table):
                    sources.append(Source(node.alias_or_name, node, None))
            if isinstance(item, exp.Subquery) and item.alias:
                sources.append(Source(item.alias, item, None))
        tree: Tree = sources[0] if sources else Source("?", items[0], None)
        for source in sources[1:]:
            tree = JoinTree("inner", tree, source)
        return tree, Frame([], sources, complete=False)

    # ---------------------------------------------------------------------------------------------------------- FROM

    def from_clause(
        self, first: exp.Expr, joins: list[exp.Join], ctes: Mapping[str, Cte], outer: list[Frame]
    ) -> tuple[Tree, Frame]:
        """Resolve FROM. For Spark a comma is also a join from left to right, unless a setting gives JOIN precedence."""
        if joins and any(item.args.get("pivots") for join in joins for item in (join, join.this, first)):
            raise Unresolvable("PIVOT or UNPIVOT in FROM changes the columns of what is joined")
        segments: list[tuple[Tree, Frame]] = [self.relation(first, ctes, outer)]
        for join in joins:
            right = self.relation(join.this, ctes, outer)
            if not join.meta.get("comma"):
                segments[-1] = self.join(join, segments[-1], right, ctes, outer)
            elif self.join_before_comma:
                segments.append(right)
            else:
                left = segments[-1]
                segments[-1] = JoinTree("inner", left[0], right[0]), _both(left[1], right[1])
        tree, frame = segments[0]
        for right_tree, right_frame in segments[1:]:
            tree = JoinTree("inner", tree, right_tree)
            frame = _both(frame, right_frame)
        return tree, frame

    def join(
        self,
        join: exp.Join,
        left: tuple[Tree, Frame],
        right: tuple[Tree, Frame],
        ctes: Mapping[str, Cte],
        outer: list[Frame],
    ) -> tuple[Tree, Frame]:
        kind = join_kind(join)
        in_where, closest = bool(join.meta.get("in_where")), closest_of(join)
        tree = JoinTree(kind, left[0], right[0], join.args.get("on"), in_where=in_where, closest=closest)
        frame = _both(left[1], right[1])
        using = [name.name for name in join.args.get("using") or []]
        if (join.method or "").upper() == "NATURAL":
            if not (left[1].complete and right[1].complete):
                raise Unresolvable("a NATURAL JOIN needs the schemas of both sides")
            names = {self.key(f.name) for f in right[1].visible}
            using = list(dict.fromkeys(f.name for f in left[1].visible if self.key(f.name) in names))
        if tree.on is not None:
            self.resolve_columns(tree.on, frame, ctes, outer)
        if tree.closest is not None:
            self.resolve_columns(tree.closest, frame, ctes, outer)
        for name in join.args.get("using") or []:
            for side in (left[1], right[1]):
                if side.complete and self.key(name.name) not in [self.key(one.name) for one in side.visible]:
                    self.misnamed.append(Misnamed(exp.Column(this=name.copy()), side.sources))
        if using:
            frame = self.merge(tree, using, left[1], right[1])
        if kind in ("semi", "anti"):  # the columns of USING still come first
            kept = [field for field in frame.visible if field not in right[1].visible]
            frame = Frame(kept, left[1].sources, left[1].complete, left[1].hidden)
        return tree, frame

    def merge(self, tree: JoinTree, using: list[str], left: Frame, right: Frame) -> Frame:
        merged, used, hidden = [], set(), []
        for name in using:
            one, other = self.by_name(left, name), self.by_name(right, name)
            tree.equal.append((one, other))
            used |= {one, other}
            match tree.kind:
                case "full":
                    both = exp.Anonymous(this="coalesce", expressions=[column_of(one), column_of(other)])
                    merged.append(Field(None, one.name, one.type, both))
                    hidden += [one, other]
                case "right":
                    merged.append(Field(None, other.name, other.type, column_of(other)))
                    hidden.append(one)
                case _:
                    merged.append(Field(None, one.name, one.type, column_of(one)))
                    hidden.append(other)
        rest = [f for f in (*left.visible, *right.visible) if f not in used]
        joined = _both(left, right)
        return replace(joined, visible=[*merged, *rest], hidden=[*hidden, *joined.hidden])

    def relation(self, item: exp.Expr, ctes: Mapping[str, Cte], outer: list[Frame]) -> tuple[Tree, Frame]:
        inner = item.this
        # A Subquery with joins is a parenthesised join that begins with a derived table.
        joined = isinstance(inner, exp.Subquery) and inner.args.get("joins")
        if isinstance(item, exp.Subquery) and (joined or not isinstance(inner, exp.Query)):
            if item.alias or item.args.get("pivots"):
                raise Unresolvable("a parenthesised join that has an alias of its own")
            return self.from_clause(inner, inner.args.get("joins") or [], ctes, outer)
        if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Subquery) and not item.alias:
            return self.relation(item.this, ctes, outer)
        source = self.source(item, ctes, outer)
        if item.args.get("pivots"):
            source.problem, source.fields = "PIVOT or UNPIVOT in FROM", None
        return source, Frame(list(source.fields or []), [source], source.fields is not None)

    def source(self, item: exp.Expr, ctes: Mapping[str, Cte], outer: list[Frame]) -> Source:
        match item:
            case exp.Subquery():
                item.meta["resolved"] = True
                output = self.query(item.this, ctes, [])
                return self.made(item, item.alias or "__derived", output)
            case exp.Stream():
                inner = item.this
                while isinstance(inner, exp.Subquery | exp.Paren):
                    inner = inner.this
                source = self.source(inner, {}, outer)
                alias = item.this.alias or source.alias
                info = source.info or TableInfo(())
                info = replace(marked(info, item.this), streaming=True)
                if info.rows_from == "statistics":  # the rows that the table has now, not future ones
                    info = replace(info, rows=None)
                return self.made_table(item, alias, source.parts, info)
            case exp.Table() if called(item.this) == "identifier":
                source = Source(item.alias or "identifier", item, None)
                source.problem = "IDENTIFIER(...) names a relation that only Spark looks up"
                return source
            case exp.Table(this=exp.Func()):
                source = Source(item.alias or item.this.name.lower(), item, None, info=TableInfo((), streaming=False))
                if item.this.name.lower() == "range":
                    source.fields = [Field(source, "id", "bigint")]
                return self.aliased(source)
            case exp.Table():
                parts = tuple(part.name for part in item.parts)
                cte = ctes.get(self.key(parts[0])) if len(parts) == 1 else None
                if cte:
                    cte.uses += 1
                    source = self.made(item, item.alias or parts[0], cte.output)
                    source.definition = item.meta["cte"] = cte
                    source.problem = f"{cte.name} is a recursive common table expression" if cte.recursive else None
                    return source
                info = marked(self.catalog.table(parts) or TableInfo(()), item)
                return self.made_table(item, item.alias or parts[-1], parts, info)
            case exp.Values():
                source = Source(item.alias or "__values", item, None, info=TableInfo((), streaming=False))
                width = len(item.expressions[0].expressions) if item.expressions else 0
                source.fields = [Field(source, f"col{n}") for n in range(1, width + 1)]
                return self.aliased(source)
        source = Source(item.alias or "?", item, None)
        source.problem = "a LATERAL relation depends on the relations before it"
        for node in own_nodes(item):
            if isinstance(node, exp.Query):
                self.query(node, ctes, outer)
        return source

    def made_table(self, item: exp.Expr, alias: str, parts: tuple[str, ...], info: TableInfo) -> Source:
        source = Source(alias, item, None, parts, info)
        if info.columns:
            source.fields = [Field(source, c.name, c.type) for c in info.columns]
        return self.aliased(source)

    def made(self, item: exp.Expr, alias: str, output: Output) -> Source:
        source = Source(alias, item, None, query=output)
        source.info = marked(output.info, item)
        if output.columns is not None:
            source.fields = [Field(source, f.name, f.type) for f in output.columns]
        return self.aliased(source)

    def aliased(self, source: Source) -> Source:
        alias = (source.item.this if isinstance(source.item, exp.Stream) else source.item).args.get("alias")
        names = alias.columns if isinstance(alias, exp.TableAlias) else []
        if names and source.fields is not None and len(names) == len(source.fields):
            new = {f.name.lower(): n.name for f, n in zip(source.fields, names, strict=True)}
            if source.info is not None:
                times = ((new[name.lower()], delay) for name, delay in source.info.times if name.lower() in new)
                source.info = replace(source.info, times=tuple(times))
            source.fields = [Field(source, n.name, f.type) for f, n in zip(source.fields, names, strict=True)]
        elif names:
            source.fields = [Field(source, n.name) for n in names]
        return source

    def lateral_view(self, lateral: exp.Expr, frame: Frame, ctes: Mapping[str, Cte], outer: list[Frame]) -> Frame:
        self.resolve_columns(lateral.this, frame, ctes, outer)
        alias = lateral.args.get("alias")
        source = Source(alias.name if alias else "?", lateral, None, problem="LATERAL VIEW")
        names = alias.columns if alias else []
        source.fields = [Field(source, n.name) for n in names] or None
        added = Frame(list(source.fields or []), [source], source.fields is not None)
        return _both(frame, added)

    # ------------------------------------------------------------------------------------------------------- clauses

    def clauses(self, select: exp.Select, frame: Frame, ctes: Mapping[str, Cte], outer: list[Frame]) -> None:
        names = {self.key(item.alias_or_name) for item in select.expressions if item.alias_or_name}
        explicit = {self.key(item.alias) for item in select.expressions if isinstance(item, exp.Alias)}
        windows = set(windows_of(select))
        explicit, names = explicit | windows, names | windows
        problem: Unresolvable | None = None
        for key, value in select.args.items():
            if key in ("from_", "joins", "laterals", "with_", "hint", "within", "kind") or not value:
                continue
            for tree in value if isinstance(value, list) else [value]:
                if not isinstance(tree, exp.Expr):
                    continue
                first = names if key in ("order", "sort", "having", "qualify") else set()
                if key == "having":
                    if has_subtotals(select):
                        if name := unsure(bare_names(tree, self.key), select, frame, self.key):
                            both = f"{name} in HAVING is a column and an output of SELECT, above subtotals"
                            problem = problem or Unresolvable(both)
                    else:
                        first -= self.grouped_by(tree, select, frame)
                after = explicit if key in ("expressions", "group", "windows") else names
                try:
                    self.resolve_columns(tree, frame, ctes, outer, first, after if key != "where" else set())
                except Unresolvable as reason:
                    problem = problem or reason
        if problem:
            raise problem

    def grouped_by(self, having: exp.Expr, select: exp.Select, frame: Frame) -> set[str]:
        """Return the bare names in HAVING that are columns of GROUP BY, even if outputs have the same names."""

        def lookup(column: exp.Column) -> Field | None:
            try:
                found = None if column.table else self.lookup(frame, [column.name])
            except Unresolvable:
                return None
            return found[0] if found else None

        return {self.key(column.name) for column in grouped_columns(having, select, lookup)}

    def resolve_columns(
        self,
        tree: exp.Expr,
        frame: Frame,
        ctes: Mapping[str, Cte],
        outer: list[Frame],
        first: AbstractSet[str] = frozenset(),
        after: AbstractSet[str] = frozenset(),
    ) -> None:
        """Attach fields to the columns of a tree; SELECT aliases in ``first`` win over columns, in ``after`` lose."""
        problem: Unresolvable | None = None
        if isinstance(tree, exp.Query):
            self.query(tree, ctes, [frame, *outer])
            return
        for node in list(own_nodes(tree)):
            if isinstance(node, exp.Query):
                self.query(node, ctes, [frame, *outer])
            elif isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                if isinstance(node.parent, exp.Star):
                    continue  # a name in * EXCEPT (...)
                bare, lead = not node.table, node.parts[0].name
                if bare and self.key(node.name) in first and not in_aggregate(node):
                    continue
                try:
                    self.resolve_column(node, [frame, *outer])
                except Unresolvable as reason:
                    if self.key(lead) not in (*after, *first):  # of an output, or a field of one
                        self.misnamed += misnamed(node, [frame, *outer], self)
                        problem = problem or reason
        if problem:
            raise problem

    def resolve_column(self, column: exp.Column, frames: list[Frame]) -> None:
        parts = column.parts
        names = [part.name for part in parts]
        for number, frame in enumerate(frames, 1):
            found = self.lookup(frame, names, [one for around in frames[number:] for one in around.sources])
            if found:
                attached, used = found
                break
        else:
            if len(names) == 1 and names[0].lower() in WITHOUT_PARENTHESES:
                column.replace(exp.Anonymous(this=names[0]))
                return
            raise Unresolvable(f"the column {render(column)} cannot be resolved with the schemas that are known")
        if used == len(parts):
            column.meta["field"] = attached
            keep_field_name(column)
            return
        base: exp.Expr = exp.Column(this=parts[used - 1].copy())
        base.meta["field"] = attached
        for part in parts[used:]:
            base = exp.Dot(this=base, expression=part.copy())
        column.replace(base)


def _common_columns(left: list[Field], right: list[Field]) -> list[Field]:
    """Return the columns of a set operation; one has a known type where both branches have the same."""
    if len(left) != len(right):
        return [Field(None, column.name) for column in left]
    pairs = zip(left, right, strict=True)
    return [Field(None, one.name, one.type if one.type == other.type else UNKNOWN) for one, other in pairs]


def _of_both(left: Output, right: Output) -> tuple[Time, ...]:
    """Return the event times of UNION ALL and their delays: columns that are event times in both branches."""
    theirs = {_place(right, name): delay for name, delay in right.times}
    mine = ((name, delay, _place(left, name)) for name, delay in left.times)
    return tuple((name, max(delay or 0, theirs[place] or 0)) for name, delay, place in mine if place in theirs)


def _place(output: Output, name: str) -> int:
    """Return where the columns of a query have a name."""
    return next(place for place, column in enumerate(output.columns or ()) if column.name == name)


def _rows_of(select: exp.Select, sources: list[Source]) -> tuple[float | None, RowsFrom]:
    """Return the rows of a SELECT that only projects and filters one stream: those of the stream."""
    info = sources[0].info if len(sources) == 1 else None
    changing = ("group", "having", "distinct", "limit", "offset", "laterals")
    if info is None or not info.streaming or any(select.args.get(clause) for clause in changing):
        return None, "assumed"
    return info.rows, info.rows_from


def _both(left: Frame, right: Frame) -> Frame:
    return Frame(
        [*left.visible, *right.visible],
        [*left.sources, *right.sources],
        left.complete and right.complete,
        [*left.hidden, *right.hidden],
    )


def _spoil(outer: list[Frame], reason: str) -> None:
    """Note that a name in a subquery cannot be resolved; it may be a column of an outer SELECT."""
    for frame in outer:
        frame.problem = frame.problem or reason
