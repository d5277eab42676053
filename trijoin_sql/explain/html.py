"""An explanation as one self-contained HTML page; it fetches nothing.

The page carries a content security policy that names its own scripts and styles by their hashes, so a browser runs
nothing else on it and opens no connection, whatever the query's text holds. All text is escaped by Jinja2.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from ..rewriter.plan.conjuncts import KINDS
from ..rewriter.plan.document import Conjunct, Document, Group, Live, Place
from ..rewriter.plan.schemes import RECORDS
from . import wording as words
from .graph_svg import graph_svg
from .scheme_svg import scheme_svg
from .sql_text import Token, is_hint, tokens
from .stage_diff import stage_changes

if TYPE_CHECKING:
    from jinja2 import Environment

_STYLES = ("page.css", "figures.css")
_SCRIPTS = ("stages.js", "canvas.js", "search.js", "page.js")
_NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}


def render_html(document: Document) -> str:
    """Return an explanation as a self-contained HTML page."""
    templates = environment()
    style = "\n".join([*_kind_styles(), *(asset(name) for name in _STYLES)])
    theme = asset("theme.js")
    script = "\n".join(["'use strict';", *(asset(name) for name in _SCRIPTS)])
    marked = _marked_sql(document)
    policy = "; ".join(
        [
            "default-src 'none'",
            f"style-src '{digest(style)}'",
            f"script-src '{digest(theme)}' '{digest(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    page: str = templates.get_template("page.html").render(
        document=document,
        policy=policy,
        style=style,
        theme=theme,
        script=script,
        headline=headline(document),
        told=words.grouped(document.advice, (alias for group in document.groups for alias in group.graph.relations)),
        title=_title(document),
        sql=marked,
        anchors={key: mark.anchor for _, mark in reversed(marked) if mark and mark.anchor for key in mark.keys},
        lines=document.sql.count("\n") + 1,
        kinds_used=_kinds_used(document),
        pictures=[(graph_svg(group) if group.graph.relations else "", scheme_svg(group)) for group in document.groups],
        stages=stage_changes(document.stages),
        unbounded=[group for group in document.groups if group.state_is_unbounded],
    )
    return page


def headline(document: Document) -> str:
    """Return in one sentence how the query will run."""
    if document.refusals:
        return "This query cannot run on streams."
    if not document.groups:
        return "There is no join for TriJoin SQL here: the query goes to Spark unchanged."
    if len(document.groups) == 1:
        (group,) = document.groups
        relations = group.graph.relations
        names = _and(relations) if len(relations) <= 6 else words.count(len(relations), "relation")
        if group.decision.left_to_spark:
            return f"The join of {names} is left to Spark."
        scheme = f" under the {group.decision.scheme} scheme" if group.decision.scheme else ""
        return f"{names} run as one {group.decision.node}{scheme}."
    decisions = [group.decision for group in document.groups]
    kinds = Counter("left to Spark" if one.left_to_spark else one.node for one in decisions)
    parts = [f"{_NUMBERS.get(number, str(number))} {kind}" for kind, number in kinds.items()]
    return f"{_NUMBERS.get(len(document.groups), str(len(document.groups))).capitalize()} join groups: {_and(parts)}."


def _title(document: Document) -> str:
    nodes = ", ".join(words.node_title(group) for group in document.groups) or "passed to Spark"
    return f"{nodes} – TriJoin SQL"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the SQL and the conjuncts from it.

    Parameters
    ----------
    kind
        The most selective of their kinds.
    keys
        Their names in the page, such as ``g1p2``.
    anchor
        The one by which links find the place; None if all of them have a place before this one.
    """

    kind: str
    keys: tuple[str, ...]
    anchor: str | None


def _marked_sql(document: Document) -> list[tuple[list[Token], Mark | None]]:
    """Return the SQL in pieces of tokens, each with the conjuncts that stand there."""
    found: dict[Place, list[tuple[str, Conjunct]]] = {}
    for group in document.groups:
        for one in group.graph.predicates:
            for place in one.places:
                found.setdefault(place, []).append((f"g{group.index}p{one.number}", one))
    pieces: list[tuple[list[Token], Mark | None]] = []
    done, linked = 0, set[str]()
    for (start, end), conjuncts in sorted(found.items()):
        if done <= start < end:
            keys = tuple(dict.fromkeys(key for key, _ in conjuncts))
            anchor = next((key for key in keys if key not in linked), None)
            linked.update(keys)
            mark = Mark(words.strongest(tuple(one.kind for _, one in conjuncts)), keys, anchor)
            pieces += [(tokens(document.sql[done:start]), None), (tokens(document.sql[start:end]), mark)]
            done = end
    return [*pieces, (tokens(document.sql[done:]), None)]


def _kind_styles() -> Iterator[str]:
    for kind, record in KINDS.items():
        yield f".k-{kind} {{ --kind: light-dark({record.light}, {record.dark}); }}"
        yield f".edge.k-{kind} {{ {record.edge} }} .pred.k-{kind} {{ {record.underline} }}"


def _kinds_used(document: Document) -> list[tuple[str, str, str]]:
    used = {predicate.kind for group in document.groups for predicate in group.graph.predicates}
    return [(kind, one.sign, one.meaning) for kind, one in KINDS.items() if kind in used]


def _shares(values: Sequence[float | None]) -> list[float]:
    """Return each value as a percentage of the largest; values above zero stay visible."""
    most = max((value for value in values if value), default=0) or 1
    return [max(round(100 * value / most, 1), 0.7) if value and value > 0 else 0 for value in values]


def _times(ratio: float) -> str:
    if 0 < ratio < 0.01:
        return "×<0.01"
    return f"×{ratio:.2g}" if ratio < 99.5 else f"×{words.compact(float(f'{ratio:.2g}'))}"


def _cost_rows(group: Group) -> list[dict[str, Any]]:
    alternatives = group.decision.alternatives
    columns = {name: [getattr(item.cost, name) for item in alternatives] for name in ("network", "memory", "cpu")}
    shares = {name: _shares(values) for name, values in columns.items()}
    chosen = next((item for item in alternatives if item.chosen), None)
    rows = []
    for i, item in enumerate(alternatives):
        cells = []
        for name in columns:
            value, base = getattr(item.cost, name), getattr(chosen.cost, name) if chosen else None
            against = "" if item.chosen or not base or math.isnan(value + base) else _times(value / base)
            cells.append({"value": words.compact(value), "share": shares[name][i], "against": against})
        rows.append({"item": item, "cells": cells, "total": "" if item.total is None else words.compact(item.total)})
    return rows


def _state_rows(group: Group) -> list[dict[str, Any]]:
    lengths = [words.seconds(stream.keep_for) if stream.keep_for else None for stream in group.state.streams]
    ranks = {alias: i for i, alias in enumerate(group.graph.relations)}
    return [
        {"stream": stream, "share": max(share, 1.0) if length else 0, "rank": ranks.get(stream.alias, 0) % 8}
        for stream, share, length in zip(group.state.streams, _shares(lengths), lengths, strict=True)
    ]


def _unit_rows(live: Live) -> list[dict[str, Any]]:
    rows, sizes = (_shares([getattr(unit, what) for unit in live.units]) for what in ("rows", "bytes"))
    return [
        {
            "unit": unit.unit,
            "cells": [
                {"value": words.compact(unit.rows), "share": rows[i]},
                {"value": words.byte_size(unit.bytes), "share": sizes[i]},
            ],
        }
        for i, unit in enumerate(live.units)
    ]


@cache
def environment() -> Environment:
    """Return what renders the templates of pages."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(asset),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=False,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.update(
        words=words,
        schemes=RECORDS,
        is_hint=is_hint,
        cost_rows=_cost_rows,
        state_rows=_state_rows,
        unit_rows=_unit_rows,
    )
    return environment


@cache
def asset(name: str) -> str:
    """Return the text of a file for pages."""
    return resources.files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """Return the hash by which a content security policy allows a script or a style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
