"""What Spark certainly refuses of a query's expressions, over streams and over tables: told from names and types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from .names.scopes import Resolution, ResolvedSelect, expression_type, field_of, own_nodes
from .on_streams import GROUPED, is_aggregate, made
from .sql.dialect import render, tokenize
from .sql.functions import RANDOM, called
from .sql.intervals import MICROSECONDS, length_microseconds
from .sql.similar import close
from .sql.spark_types import TIMES, is_number

#: The units that Spark reads in a text; those of no fixed length are last.
_UNITS = (*(unit.lower() for unit in MICROSECONDS), "month", "year")


@dataclass(frozen=True)
class Mistake:
    """What is wrong, a way out, and where in the statement."""

    reason: str
    hint: str
    at: int


def mistakes(resolution: Resolution, sql: str, *, ansi: bool) -> Iterator[Mistake]:
    """Yield the mistakes of a statement; ``ansi`` tells that Spark certainly casts as ANSI mode does."""
    words = [(token.text.upper() if sql[token.start] not in "`\"'" else "", token.start) for token in tokenize(sql)]
    for (one, _), (other, at), (third, _) in zip(words, words[1:], [*words[2:], ("", 0)], strict=False):
        if (one, other) == ("SELECT", "FROM") and third != "FROM":
            yield Mistake("nothing stands after SELECT", "write columns, or *", at)
    yield from _of_whole_queries(resolution)
    for block in resolution.blocks:
        if block.problem is None:
            yield from _of_groups(block)
        yield from _of_names(block)
        conditions = [join.args.get("on") for join in block.select.args.get("joins") or []]
        conditions.append(block.select.args.get("where"))
        yield from _of_conditions(conditions)
        nodes = [node for tree in conditions if isinstance(tree, exp.Expr) for node in own_nodes(tree)]
        yield from _of_joins(conditions[:-1], sql)
        for node in nodes:
            if is_aggregate(node) and _is_own(node, block):
                clause = "WHERE" if isinstance(node.find_ancestor(exp.Where, exp.Join), exp.Where) else "ON"
                hint = "aggregate in a query in FROM, and compare its result" + (
                    ", or use HAVING" * (clause == "WHERE")
                )
                yield Mistake(f"{clause} is tested for each row, and {render(node)} needs a group", hint, _start(node))
        everything = list(dict.fromkeys([*made(block.select), *nodes]))
        yield from _of_aggregates(block)
        yield from _of_lengths(everything, sql)
        yield from _of_types(everything, ansi=ansi)
        yield from _of_units(everything, sql)


def _of_whole_queries(resolution: Resolution) -> Iterator[Mistake]:
    """Yield what is wrong with UNION and its like, and with WITH."""
    for tree in resolution.tree.find_all(exp.SetOperation):
        sides = [side.unnest() for side in (tree.left, tree.right)]
        listed = [side.expressions for side in sides if isinstance(side, exp.Select)]
        unclear = any(one.find(exp.Star, exp.Anonymous) for some in listed for one in some)
        counts = [len(some) for some in listed]
        if len(counts) == 2 and counts[0] != counts[1] and not unclear and not tree.args.get("by_name"):
            reason = f"{tree.key.upper()} puts together queries of {counts[0]} and of {counts[1]} columns"
            yield Mistake(reason, "select as many in each", _start(sides[1]))
    for with_ in resolution.tree.find_all(exp.With):
        seen = set[str]()
        for cte in with_.expressions:
            if cte.alias.lower() in seen:
                yield Mistake(f"WITH has two queries named {cte.alias}", "give one of them another name", _start(cte))
            seen.add(cte.alias.lower())


def _of_joins(conditions: list[exp.Expr | None], sql: str) -> Iterator[Mistake]:
    """Yield the functions in ON that have another value each time."""
    for tree in conditions:
        for node in () if tree is None else own_nodes(tree):
            if called(node) in RANDOM - {"assert_true", "raise_error"}:
                reason = f"ON reads {render(node)}, which has another value each time"
                yield Mistake(reason, "compute it in a query in FROM", max(sql.lower().find(f"{called(node)}("), 0))


def _of_names(block: ResolvedSelect) -> Iterator[Mistake]:
    """Yield the names that two relations of a SELECT have, and a column is read by."""
    seen = set[str]()
    for source in block.sources:
        alias = source.alias.lower()
        named = (column for column in block.select.find_all(exp.Column) if not column.args.get("db"))
        if alias in seen and any(column.table.lower() == alias for column in named):
            hint = f"give one of them another name: {source.alias} AS {source.alias}2"
            yield Mistake(f"two relations are named {source.alias}", hint, _start(source.item))
        seen.add(alias)


def _of_conditions(conditions: list[exp.Expr | None]) -> Iterator[Mistake]:
    """Yield the conditions of ON and WHERE that are values of another type."""
    for tree in conditions:
        inside = tree.this if isinstance(tree, exp.Where) else tree
        kind = "unknown" if inside is None else expression_type(inside)
        if inside is not None and (is_number(kind) or _is_time(kind) or kind.startswith("interval")):
            clause = "WHERE" if isinstance(tree, exp.Where) else "ON"
            reason = f"{clause} needs a condition, and {render(inside)} is {_article(kind.upper())}"
            yield Mistake(reason, "compare it with something", _start(inside))


def _is_own(node: exp.Expr, block: ResolvedSelect) -> bool:
    """Tell whether all columns of an expression are those of a SELECT's own relations."""
    fields = [field_of(column) for column in node.find_all(exp.Column)]
    return all(field is not None and field.source in block.sources for field in fields)


def _of_groups(block: ResolvedSelect) -> Iterator[Mistake]:
    """Yield the columns that a SELECT with groups neither groups by nor aggregates."""
    select = block.select
    group = select.args.get("group")
    if group is None and not any(is_aggregate(node) and _is_own(node, block) for node in made(select, GROUPED)):
        return
    inside = [] if group is None else list(group.walk())
    if group is not None and (group.args.get("all") or any(isinstance(one, exp.Literal) for one in group.expressions)):
        return  # ALL, or a place in SELECT
    plain = [] if group is None else [one for one in group.expressions if isinstance(one, exp.Column)]
    fields = [field for one in plain if (field := field_of(one)) is not None]
    resolved = {id(node) for one in plain if field_of(one) is not None for node in one.walk()}
    keys = {node.name.lower() for node in inside if isinstance(node, exp.Identifier) and id(node) not in resolved}
    for item in select.expressions:
        if item.alias.lower() in keys:
            keys |= {node.name.lower() for node in item.find_all(exp.Identifier)}
    for item in select.expressions:
        column = item.unalias()
        others = {one.alias.lower() for one in select.expressions if one is not item and isinstance(one, exp.Alias)}
        known = keys | others
        if (
            isinstance(column, exp.Column)
            and _is_own(column, block)
            and field_of(column) not in fields
            and not {column.name.lower(), item.alias.lower()} & known
        ):
            name = render(column)
            reason = f"the column {name} is neither in GROUP BY nor in an aggregate function"
            yield Mistake(reason, f"add it to GROUP BY, or write any_value({name})", _start(column))


def _of_aggregates(block: ResolvedSelect) -> Iterator[Mistake]:
    """Yield the aggregates of aggregates, places in SELECT that there are not, and windows of several lengths."""
    select = block.select
    for node in made(select, GROUPED):
        inside = (one for part in node.iter_expressions() for one in own_nodes(part)) if is_aggregate(node) else ()
        if node.find_ancestor(exp.Window) is None and (inner := next(filter(is_aggregate, inside), None)) is not None:
            reason = f"{render(node)} aggregates {render(inner)}, which is an aggregate itself"
            yield Mistake(reason, "aggregate in a query in FROM, and aggregate its result", _start(inner))
    group, many = select.args.get("group"), len(select.expressions)
    starred = any(one.is_star for one in select.expressions)
    for key in () if group is None or starred else group.expressions:
        if isinstance(key, exp.Literal) and key.is_int and int(key.name) > many:
            yield Mistake(f"GROUP BY {key.name} is no place in SELECT, which has {many}", "name the column", 0)
    windows = {_lengths(one): one for one in made(select, ("group", *GROUPED)) if called(one) == "window"}
    if len(windows) > 1 and block.problem is None and not any(None in lengths for lengths in windows):
        one, other = list(windows.values())[:2]
        reason = f"{render(other)} and {render(one)} are windows of two kinds, and Spark makes one kind in a query"
        yield Mistake(reason, "write the same window in SELECT and GROUP BY", _start(other))


def _lengths(window: exp.Expr) -> tuple[int | None, ...]:
    """Return the length of windows and by how much they slide, each None if it is not certain."""
    found = [_length(one) for one in window.expressions[1:]]
    return (*found, found[-1]) if len(found) == 1 else tuple(found)


def _of_lengths(nodes: list[exp.Expr], sql: str) -> Iterator[Mistake]:
    """Yield the lengths of windows that Spark does not read."""
    for node in nodes:
        for length in node.expressions[1:] if called(node) == "window" else ():
            length = length.expression if isinstance(length, exp.PropertyEQ | exp.Kwarg) else length
            if not isinstance(length, exp.Literal) or not length.is_string:
                continue
            words = re.findall(r"[a-z]+", length.name.lower().removeprefix("interval"))
            wrong = next((word for word in words if word.removesuffix("s") not in _UNITS), None)
            reason, hint = f"'{length.name}' is no length of time", "write '10 minutes', say"
            if wrong is not None and (unit := close(wrong, _UNITS)):
                hint = f"did you mean {unit}?"
            elif words and wrong is None:
                found = length_microseconds(length.name)
                if re.search(r"[1-9]\d*\s+(month|year)", length.name.lower()):
                    reason, hint = f"'{length.name}' has no fixed length, as windows have", "write '30 days', say"
                elif found == 0 and length in node.expressions[1:3]:
                    reason, hint = f"'{length.name}' is no length of a window", "windows are longer than nothing"
                elif found and length in node.expressions[2:3] and found > (_length(node.expressions[1]) or found):
                    reason, hint = f"windows slide by '{length.name}', which is longer than they are", "slide by less"
                else:
                    continue
            yield Mistake(reason, hint, max(sql.find(f"'{length.name}'"), 0))


def _of_units(nodes: list[exp.Expr], sql: str) -> Iterator[Mistake]:
    """Yield the units of time that Spark does not know: it then looks for a column, or for a function."""
    for node in nodes:
        if called(node) in ("timestampdiff", "timestampadd") and len(node.expressions) == 3:
            unit = node.expressions[0].name.lower()
            if unit not in (*_UNITS, "quarter", "dayofyear"):
                meant = close(unit, _UNITS)
                hint = f"did you mean {meant.upper()}?" if meant else "write SECOND, say"
                name = node.expressions[0].name
                yield Mistake(f"{name} is no unit of time", hint, max(sql.find(name), 0))


def _of_types(nodes: list[exp.Expr], *, ansi: bool) -> Iterator[Mistake]:
    """Yield the pairs of values that Spark neither compares nor computes with."""
    for node in nodes:
        match node:
            case exp.Between():
                pairs = [(node.this, node.args["low"]), (node.this, node.args["high"])]
            case exp.EQ() | exp.NullSafeEQ() | exp.NEQ() | exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
                pairs = [(node.left, node.right)]
            case exp.Add() | exp.Sub() if (mixed := _time_and_number(node)) is not None:
                yield Mistake(*mixed, _start(node))
                continue
            case exp.Add() | exp.Sub() | exp.Mul():
                if ansi and expression_type(node.left) == expression_type(node.right) == "string":
                    reason = f"{render(node)} computes with texts: both sides are STRING"
                    yield Mistake(reason, f"write TRY_CAST({render(node.left)} AS DOUBLE), say", _start(node))
                continue
            case _:
                continue
        for one, other in pairs:
            types = _type(one), _type(other)
            if any((_is_time(a) or a.startswith("interval")) and is_number(b) for a, b in (types, types[::-1])):
                (left, right), (first, second) = map(render, (one, other)), map(str.upper, types)
                reason = f"{left} is {_article(first)} and {right} is {_article(second)}: Spark does not compare them"
                hint = "compare times with times: timestamp_seconds(x) makes one of a number"
                if any(kind.startswith("interval") for kind in types):
                    hint = "compare a difference of times with a length: INTERVAL 5 SECONDS"
                yield Mistake(reason, hint, _start(node))


def _length(tree: exp.Expr) -> int | None:
    return length_microseconds(tree.name) if isinstance(tree, exp.Literal) else None


def _type(tree: exp.Expr) -> str:
    """Return the type of an expression, that of a difference of times too."""
    inside = tree.unnest()
    if called(inside) == "abs" and len(inside.expressions) == 1:
        return _type(inside.expressions[0])
    times = isinstance(inside, exp.Sub) and all(expression_type(one) in TIMES for one in (inside.left, inside.right))
    return "interval day to second" if times else expression_type(tree)


def _time_and_number(tree: exp.Binary) -> tuple[str, str] | None:
    """Return what is wrong with the sum of a time and a number."""
    types = expression_type(tree.left), expression_type(tree.right)
    if not (any(kind in TIMES for kind in types) and any(map(is_number, types))):
        return None
    return f"{render(tree)} adds a number to a time", "add a length: INTERVAL 5 SECONDS"


def _is_time(name: str) -> bool:
    return name in TIMES or name == "date"


def _article(name: str) -> str:
    return f"an {name}" if name[:1] in "AEIOU" else f"a {name}"


def _start(node: exp.Expr) -> int:
    """Return where the first name in an expression stands."""
    places = [one.meta["start"] for one in node.find_all(exp.Identifier) if "start" in one.meta]
    return min(places, default=0)
