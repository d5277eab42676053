"""Names of struct fields that Spark takes from columns, written into the text before columns are renamed.

``struct(r.a, s.b)``, ``(r.a, s.b)`` and ``arrays_zip(r.xs, s.ys)`` have fields named after their columns, which a query
over join nodes renames. So each such argument gets its name: ``struct(r.a AS a, s.b AS b)``. Where structs
are compared names do not show, and the text of a condition stays as it is, for checkpoints; only what Spark's own joins
get has names there too (`predicates.terms.with_field_names`).
"""

from __future__ import annotations

from sqlglot import exp

from ..sql.dialect import identifier
from ..sql.functions import called

#: Where a row constructor makes a value; elsewhere (IN, comparisons, GROUPING SETS) names do not show or are illegal.
_VALUES = exp.Select | exp.Alias | exp.Anonymous | exp.Array | exp.Dot | exp.If | exp.Case | exp.Group | exp.Ordered


def keep_field_name(column: exp.Column) -> None:
    """Give a resolved column its name, in place, if a field of a struct is named after it."""
    call = column.parent
    name = identifier(column.name)
    if isinstance(call, exp.Tuple):
        parent = call.parent
        while isinstance(parent, exp.Tuple | exp.Paren):
            parent = parent.parent
        if not isinstance(parent, _VALUES):
            return
    elif called(call) == "arrays_zip":  # takes no AS, but the name of a struct's field
        text = exp.Literal.string(column.name)
        struct = exp.Anonymous(this="named_struct", expressions=[text, column.copy()])
        column.replace(exp.Dot(this=struct, expression=name))
        return
    elif (
        call is None or called(call) != "struct" or isinstance(call.parent, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.In)
    ):
        return
    column.replace(exp.alias_(column.copy(), name, copy=False))
