"""Names in a frame: the column that a name means, and the columns that ``*`` means."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ..sql.dialect import render
from ..sql.functions import GENERATORS, called
from .scopes import WINDOWS, Field, Frame, Source, Unresolvable, expression_type, field_of

_UNKNOWN_STAR: list[Field] = []


class Names:
    """Looks names up, case-sensitive or not.

    Parameters
    ----------
    case_sensitive
        ``spark.sql.caseSensitive``.
    """

    def __init__(self, case_sensitive: bool) -> None:
        self.case_sensitive = case_sensitive

    def key(self, name: str) -> str:
        """Return a name in the form in which names are compared."""
        return name if self.case_sensitive else name.lower()

    def lookup(self, frame: Frame, names: list[str], around: Sequence[Source] = ()) -> tuple[Field, int] | None:
        """Return the column at the start of a dotted name, and how many of its parts name it; None if none does.

        ``around`` are the relations around a subquery: a name that begins with one is taken for its column, where it
        could also be a field of a relation whose columns are not known.
        """
        for width in range(min(3, len(names) - 1), 0, -1):
            for source in frame.sources:
                if self.names_source(source, names[:width]):
                    found = self.in_source(source, names[width])
                    if found:
                        return found, width + 1
        matches = [f for f in frame.visible if self.key(f.name) == self.key(names[0])]
        if len(matches) > 1:
            raise Unresolvable(f"the column {names[0]} is ambiguous")
        if matches:
            return matches[0], 1
        unknown = [s for s in frame.sources if s.fields is None]
        if len(unknown) == 1 and len(names) == 1:
            return self.known(unknown[0], names[0]), 1
        if unknown and not (len(names) > 1 and any(self.names_source(one, names[:1]) for one in around)):
            raise Unresolvable(f"the schema of {unknown[0].alias} is not known, so {names[0]} cannot be resolved")
        return None

    def names_source(self, source: Source, names: list[str]) -> bool:
        """Tell whether names mean a relation: its alias, or the end of its full name."""
        if len(names) == 1:
            return self.key(names[0]) == self.key(source.alias)
        written = (source.item.this if isinstance(source.item, exp.Stream) else source.item).alias
        wanted = [self.key(name) for name in names]
        return not written and wanted == [self.key(part) for part in source.parts[-len(names) :]]

    def in_source(self, source: Source, name: str) -> Field | None:
        """Return a column of one relation."""
        if source.fields is None:
            return self.known(source, name)
        matches = [f for f in source.fields if self.key(f.name) == self.key(name)]
        if len(matches) > 1:
            raise Unresolvable(f"the column {source.alias}.{name} is ambiguous")
        return matches[0] if matches else None

    def known(self, source: Source, name: str) -> Field:
        """Return a column of a relation whose schema is not known."""
        return source.guessed.setdefault(self.key(name), Field(source, name))

    def by_name(self, frame: Frame, name: str) -> Field:
        """Return the column that USING means; Spark takes the first of several."""
        first = next((f for f in frame.visible if self.key(f.name) == self.key(name)), None)
        if first is not None and frame.complete:
            return first
        found = self.lookup(frame, [name])
        if not found:
            raise Unresolvable(f"the column {name} of USING cannot be resolved")
        return found[0]

    def projections(self, select: exp.Select, frame: Frame) -> list[Field] | None:
        """Return the output columns; expressions without a name get one, so that others can refer to them."""
        columns: list[Field] = []
        for item in select.expressions:
            item.meta["star"] = self.star(item, frame)
        for item in select.expressions:
            star = item.meta["star"]
            if star is not None:
                if star is _UNKNOWN_STAR:
                    return None
                columns += [Field(None, f.name, f.type, column_of(f)) for f in star]
            elif isinstance(item, exp.Aliases):
                return None
            elif isinstance(item, exp.Alias):
                columns.append(Field(None, item.alias, expression_type(item.this), item.this))
            elif isinstance(item, exp.Column | exp.Dot):
                name = item.name
                columns.append(Field(None, name, expression_type(item), item))
            elif called(item) in GENERATORS:
                return None  # of one column or of several
            else:
                columns.append(Field(None, column_name(item), expression_type(item), item))
        return columns

    def star(self, item: exp.Expr, frame: Frame) -> list[Field] | None:
        """Return the fields of ``*`` or ``t.*``, None for any other item."""
        star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
        if not isinstance(star, exp.Star):
            return None
        if any(star.args.get(key) for key in ("replace", "rename", "ilike")):
            return _UNKNOWN_STAR
        source = None
        if isinstance(item, exp.Column):
            names = [part.name for part in item.parts[:-1]]
            source = next((s for s in frame.sources if self.names_source(s, names)), None)
            if source is None or source.fields is None:
                return _UNKNOWN_STAR
            fields = _as_in_frame(source.fields, frame)
        elif not frame.complete:
            return _UNKNOWN_STAR
        else:
            fields = frame.visible
        dropped = []
        offered = Frame(fields, [source] if source else frame.sources)
        for name in star.args.get("except_") or []:
            parts = [part.name for part in name.parts] if isinstance(name, exp.Column | exp.Dot) else [name.name]
            try:
                found = self.lookup(offered, parts)
            except Unresolvable:
                return _UNKNOWN_STAR
            hit = [f for f in fields if found and found[1] == len(parts) and found[0] in (f, _merged(f))]
            if not hit:  # a field of a struct, say
                return _UNKNOWN_STAR
            dropped += hit
        return [f for f in fields if f not in dropped]


def _as_in_frame(fields: list[Field], frame: Frame) -> list[Field]:
    """Return a relation's columns in the order of ``r.*``: those that USING hides, then the others as in ``*``."""
    places: dict[Field, int] = {}
    for place, offered in enumerate((*frame.hidden, *frame.visible)):
        one: Field | None = offered
        while one is not None:
            places.setdefault(one, place)
            one = _merged(one)
    return sorted(fields, key=lambda one: places.get(one, len(places)))


def _merged(target: Field) -> Field | None:
    """Return the field that a column of USING takes its values from."""
    return field_of(target.tree) if isinstance(target.tree, exp.Column) else None


def star_fields(item: exp.Expr) -> list[Field] | None:
    """Return the fields that a ``*`` or ``t.*`` of a resolved SELECT means, None if the item is not a star.

    Raises
    ------
    Unresolvable
        A schema is missing.
    """
    fields: list[Field] | None = item.meta.get("star")
    if fields is _UNKNOWN_STAR:
        raise Unresolvable(f"{render(item)} cannot be expanded with the schemas that are known")
    return fields


def column_name(item: exp.Expr) -> str:
    """Return the name that we give an item of SELECT that has none; a window has one of Spark's."""
    name: str = item.meta.setdefault("column_name", called(item) if called(item) in WINDOWS else render(item))
    return name


def given_name(item: exp.Expr) -> str | None:
    """Return the name that `column_name` gave an item."""
    return item.meta.get("column_name")


def column_of(target: Field) -> exp.Column:
    """Return a column node of a field."""
    column = exp.Column(this=exp.to_identifier(target.name, quoted=True))
    column.meta["field"] = target
    return column
