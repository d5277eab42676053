"""Our hints after SELECT: ``/*+ SCHEME('matrix'), UNITS(8) */`` and the others; and a query without what only we know.

Spark's own hints are left alone.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Container, Sequence
from difflib import get_close_matches
from typing import Any

from sqlglot import exp

from ...errors import InvalidHintError
from ..options import MOST_UNITS
from ..plan.nodes import Hints
from ..plan.schemes import RECORDS
from ..plan.trees import TreeOf, read_tree
from .catalog import positive
from .dialect import closest_of, render
from .statement import Statement, parse_statement

_NUMBER = re.compile("[0-9]{1,9}")


def read_hints(select: exp.Select) -> Hints:
    """Read our hints of a SELECT; other hints stay with Spark.

    Raises
    ------
    InvalidHintError
        SCHEME, UNITS, ROUTING, INTERMEDIATES or SELECTIVITY has an unknown value; or a name looks like a misspelt hint
        of ours.
    """
    hints, seen = Hints(), set[str]()
    hint = select.args.get("hint")
    for item in hint.expressions if isinstance(hint, exp.Hint) else []:
        if not isinstance(item, exp.Expr):
            if any(word in str(item).upper() for word in OUR_HINTS):
                raise InvalidHintError(str(item).strip(), "it cannot be read")
            continue
        name = _name(item)
        values = [_value(value) for value in item.expressions]
        if name in _CHOICES and name in seen:
            raise InvalidHintError(render(item), f"{name} stands there twice")
        seen.add(name)
        match name:
            case "NO_TRIJOIN":
                hints = dataclasses.replace(hints, convert=False)
            case "NO_UNIT_AGGREGATE":
                hints = dataclasses.replace(hints, aggregate=False)
            case "NO_JOIN_TREE":
                hints = dataclasses.replace(hints, trees=False)
            case "TRIJOIN":
                hints = dataclasses.replace(hints, relations=tuple(values))
            case "SCHEME":
                scheme, tree = _scheme_and_tree(values[0] if len(values) == 1 else "", render(item))
                hints = dataclasses.replace(hints, scheme=scheme, tree=tree)
            case "UNITS":
                if len(values) != 1 or not _NUMBER.fullmatch(values[0]) or not 1 <= int(values[0]) <= MOST_UNITS:
                    raise InvalidHintError(render(item), f"it takes one whole number from 1 to {MOST_UNITS}")
                hints = dataclasses.replace(hints, units=int(values[0]))
            case "INTERMEDIATES":
                if values not in (["pack"], ["pair"]):
                    raise InvalidHintError(render(item), "it takes 'pack' or 'pair'")
                hints = dataclasses.replace(hints, intermediates=values[0])
            case "ROUTING":
                hints = dataclasses.replace(hints, **_routing(values, render(item)))
            case "SELECTIVITY":
                hints = dataclasses.replace(hints, shares=(*hints.shares, _share(values, render(item), hints)))
            case _ if meant := get_close_matches(name, OUR_HINTS, 1, 0.8):  # Spark would ignore it
                raise InvalidHintError(render(item), f"there is none of that name, perhaps {meant[0]} is meant")
    return hints


def hints_of(**values: str | int | tuple[object, ...] | Sequence[tuple[object, ...]] | None) -> str:
    r"""Return our hints with these arguments as SQL, an empty text if none has a value; of a list one for each tuple.

    Examples
    --------
    >>> hints_of(SCHEME="matrix", UNITS=None, ROUTING=("contrand", 2), SELECTIVITY=[("r", "s", 0.01)])
    "/*+ SCHEME('matrix'), ROUTING('contrand', 2), SELECTIVITY('r', 's', 0.01) */ "
    """
    hints = []
    for name, value in values.items():
        several = value if isinstance(value, list) else [] if value is None else [value]
        for listed in (one if isinstance(one, tuple) else (one,) for one in several):
            texts = [str(one) if isinstance(one, int | float) else exp.Literal.string(str(one)) for one in listed]
            hints.append(f"{name}({', '.join(one if isinstance(one, str) else render(one) for one in texts)})")
    return f"/*+ {', '.join(hints)} */ " if hints else ""


def _scheme_and_tree(text: str, hint: str) -> tuple[str, TreeOf[str]]:
    """Read ``operator_tree((r, s), t)``, ``tree(r, s, t)``, or the name of a scheme."""
    name, _, rest = text.partition("(")
    scheme = name.strip()
    hinted_as = RECORDS[scheme].hinted_as if scheme in RECORDS else None
    if hinted_as is None or not rest.rstrip().endswith(")"):
        if text not in SCHEMES:
            meant = "".join(f"did you mean {one}? " for one in get_close_matches(text, SCHEMES, 1))
            raise InvalidHintError(hint, f"{meant}the schemes are {', '.join(SCHEMES)}")
        return text, ()
    try:
        tree = read_tree(rest.rstrip()[:-1])
    except ValueError as error:
        form = "r, s, t" if hinted_as == "order" else "(r, s), t"
        raise InvalidHintError(hint, f"{error}; write {scheme}({form})") from None
    flat = all(isinstance(part, str) for part in tree)
    if hinted_as == "order" and not flat:
        why = f"it joins one relation after the other; write {scheme}(r, s, t), or operator_tree"
        raise InvalidHintError(hint, why)
    if hinted_as == "tree" and flat:
        raise InvalidHintError(hint, "it has no inner node; SCHEME('matrix') joins all relations in one")
    return scheme, tree


def _routing(values: list[str], hint: str) -> dict[str, Any]:
    """Read BiStream's routing strategies (003 section 3.2): random, hash, and ContRand with its number of subgroups.

    Ranges of a band's values are ours, with subgroups or without.
    """
    match values:
        case ["random" | "hash" | "range" as routing]:
            return {"routing": routing}
        case ["contrand" | "range" as routing, subgroups] if _NUMBER.fullmatch(subgroups) and int(subgroups) > 0:
            return {"routing": routing, "subgroups": int(subgroups)}
    raise InvalidHintError(
        hint, "it takes 'random', 'hash', 'range', or 'contrand' or 'range' with a number of subgroups"
    )


def _share(values: list[str], hint: str, hints: Hints) -> tuple[str, str, float]:
    """Read two relations, and the share of their pairs of rows that match."""
    one, other, text = values if len(values) == 3 else ("", "", "")
    share = positive(text)
    if share is None or share > 1 or one.lower() == other.lower():
        reason = "it takes two relations and the share of their pairs that match, above 0 and up to 1"
        raise InvalidHintError(hint, f"{reason}: SELECTIVITY(r, s, 0.001)")
    if any({one.lower(), other.lower()} == {a.lower(), b.lower()} for a, b, _ in hints.shares):
        raise InvalidHintError(hint, f"SELECTIVITY of {one} and {other} stands there twice")
    return one, other, share


#: Hints that choose one of several.
_CHOICES = ("SCHEME", "UNITS", "ROUTING", "INTERMEDIATES")

OUR_HINTS = (
    *("NO_TRIJOIN", "NO_UNIT_AGGREGATE", "NO_JOIN_TREE", "TRIJOIN"),
    *("SCHEME", "UNITS", "ROUTING", "INTERMEDIATES", "SELECTIVITY"),
)


def is_our_hint(item: object) -> bool:
    """Tell whether a hint is ours."""
    return isinstance(item, exp.Expr) and _name(item) in OUR_HINTS


def _value(value: exp.Expr) -> str:
    """Return an argument of a hint: a name or a number, a tree without quotes; what is none of these as it stands."""
    if isinstance(value, exp.Anonymous):
        return f"{value.name}({', '.join(map(render, value.expressions))})"
    return str(value.name) if isinstance(value, exp.Literal | exp.Column | exp.Identifier | exp.Var) else render(value)


def _name(item: exp.Expr) -> str:
    return item.name.upper() if isinstance(item, exp.Var | exp.Column) else str(item.this).upper()


#: The schemes that SCHEME('...') knows.
SCHEMES = tuple(RECORDS)


#: Spark's hints about how it joins a relation.
_JOIN_HINTS = (
    *("BROADCAST", "BROADCASTJOIN", "MAPJOIN", "MERGE", "MERGEJOIN", "SHUFFLE_MERGE"),
    *("SHUFFLE_HASH", "SHUFFLE_REPLICATE_NL"),
)


def join_hints(select: exp.Select, relations: Container[str]) -> exp.Hint | None:
    """Return Spark's hints of a SELECT about how it joins some relations (in lower case), None if it has none.

    A SELECT below, to which relations have moved, needs them: Spark looks for their names there only.
    """
    hint, found = select.args.get("hint"), []
    for item in hint.expressions if isinstance(hint, exp.Hint) else []:
        if isinstance(item, exp.Anonymous) and _name(item) in _JOIN_HINTS:
            names = [one.copy() for one in item.expressions if one.name.lower() in relations]
            found += [exp.Anonymous(this=_name(item), expressions=names)] if names else []
    return exp.Hint(expressions=found) if found else None


def our_hints(select: exp.Select) -> int:
    """Return how many hints of a SELECT are ours."""
    hint = select.args.get("hint")
    return sum(map(is_our_hint, hint.expressions)) if isinstance(hint, exp.Hint) else 0


def has_our_clauses(tree: exp.Expr) -> bool:
    """Return whether a query has a hint of ours or WITHIN."""
    return any(select.args.get("within") or our_hints(select) for select in tree.find_all(exp.Select))


def without_our_clauses(tree: exp.Expr) -> exp.Expr:
    """Return a query without our hints and without WITHIN, for Spark."""
    copy = tree.copy()
    for select in copy.find_all(exp.Select):
        select.set("within", None)
        hint = select.args.get("hint")
        if isinstance(hint, exp.Hint):
            kept = [item for item in hint.expressions if not is_our_hint(item)]
            select.set("hint", exp.Hint(expressions=kept) if kept else None)
    return copy


def for_spark(statement: Statement) -> str:
    """Return the query for Spark: the user's own text, unless it has a clause or a hint that only we know."""
    tree = statement.tree
    if tree is None or not (statement.kind in ("explain", "create_view") or has_our_clauses(tree)):
        return statement.sql
    if (left := _cut_out(statement)) is not None:
        return left
    return positional(render(without_our_clauses(tree)), statement.positional)


def _cut_out(statement: Statement) -> str | None:
    """Return the user's own text with spaces for our clauses, so that Spark reads the rest as it stands; None if that
    cannot be told from the text.
    """
    if statement.tree is None or statement.kind != "select":
        return None
    selects = list(statement.tree.find_all(exp.Select))
    hints = [hint for select in selects if isinstance(hint := select.args.get("hint"), exp.Hint)]
    places = [select.args["within"].meta.get("place") for select in selects if select.args.get("within")]
    if None in places or not all(is_our_hint(one) for hint in hints for one in hint.expressions):
        return None
    sql = statement.sql
    if hints:
        comments = list(re.finditer(r"/\*\+.*?\*/", sql, re.DOTALL))
        if len(comments) != len(hints):
            return None  # one stands in a text or a comment
        places += [comment.span() for comment in comments]
    for start, end in places:
        sql = sql[:start] + re.sub(r"[^\n]", " ", sql[start:end]) + sql[end:]
    return sql


def with_plain_joins(sql: str) -> str:
    """Return a query with plain joins in place of those with the closest rows, for the names of its columns.

    Spark may know no such joins: they came with 4.2 and 4.3, and a setting allows them.
    """
    statement = parse_statement(sql)
    if statement.tree is None:
        return sql
    for join in list(statement.tree.find_all(exp.Join)):
        if closest_of(join) is not None:
            for name in ("match_condition", "nearest", *(("method",) if join.method == "ASOF" else ())):
                join.set(name, None)
            if not (join.args.get("on") or join.args.get("using") or join.method):  # a NATURAL one has fewer columns
                join.set("on", exp.true())
    return positional(render(statement.tree), statement.positional)


def positional(sql: str, count: int) -> str:
    """Return a rendered query with ``?`` for its named markers again, if they are still in order."""
    names = re.findall(r":__p(\d+)\b", sql)
    if names != [str(number) for number in range(1, count + 1)]:
        return sql
    return re.sub(r":__p\d+\b", "?", sql)
