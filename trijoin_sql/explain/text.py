"""An explanation as plain text: a tree in at most 100 terminal columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ..rewriter.plan.decision import Alternative
from ..rewriter.plan.document import Document, Group, Live, NodeLoad, Stage
from ..rewriter.plan.parts import PRODUCT
from . import wording as words
from .stage_diff import DiffLine, stage_changes

#: The most terminal columns of a line.
WIDTH = 100
_BAR = 24


@dataclass(slots=True)
class _Branch:
    """A titled part of the tree: lines of its own, then parts below it."""

    title: str
    lines: list[str] = field(default_factory=list)
    below: list[_Branch] = field(default_factory=list)


def render_text(document: Document, *, every_stage: bool = False) -> str:
    """Return an explanation as a tree of text.

    Parameters
    ----------
    document
        What to render.
    every_stage
        Whether to show what each stage of the rewrite changed, and not only the last plan.

    Returns
    -------
    str
        Lines of at most `WIDTH` columns, without a newline at the end.
    """
    root = _Branch("TriJoin SQL: " + _headline(document))
    for title, refusal in words.titled_refusals(document):
        hint = [_Hanging(f"what to do: {refusal.hint}", 2)] if refusal.hint else []
        root.below.append(_Branch(f"!! {title} !!", [_Hanging(refusal.reason, 2), *hint]))
    root.below.append(_Branch("SQL", _text_lines(document.sql)))
    root.below.extend(_group(group, len(document.groups)) for group in document.groups)
    if document.advice:
        advice = [_Hanging(f"{i}. {one}", 3) for i, one in enumerate(document.advice, 1)]
        root.below.append(_Branch("advice", [*advice]))
    if document.stages:
        root.below.append(_stages(document.stages) if every_stage else _last_plan(document.stages))
    return "\n".join(_draw(root))


def _headline(document: Document) -> str:
    if not document.groups:
        none = "no join of ours, "
        return none + ("and Spark REFUSES it on streams" if document.refusals else "the query goes to Spark unchanged")
    ours = [group for group in document.groups if not group.decision.left_to_spark]
    parts = [words.count(len(document.groups), "join group")]
    parts.append(", ".join(words.node_title(group) for group in ours) if ours else "all left to Spark")
    parts += ["REFUSED on streams"] if document.refusals else []
    if any(group.state_is_unbounded for group in document.groups):
        parts.append("STATE UNBOUNDED")
    if any(one.startswith(PRODUCT) for one in document.advice):
        parts.append(PRODUCT)
    return "; ".join(parts)


def _group(group: Group, groups: int) -> _Branch:
    decision = group.decision
    title = f"group {group.index} of {groups}: {words.node_title(group)}"
    branch = _Branch(title + (f" ({group.name})" if group.name else ""))
    branch.below.append(_graph(group))
    branch.below += _sentences(
        ("why", decision.reason),
        ("units", decision.units_reason),
        ("partners", words.tested_sentence(group)),
        ("rows that costs are estimated for", words.rate_sentence(group)),
        ("pairs of rows that are expected to match", words.share_sentence(group)),
    )
    if decision.shown:
        options = [f"{name} = {words.option(group, name, value)}" for name, value in decision.shown]
        branch.below.append(_Branch("options", options))
    if (found := group.aggregation) is not None:
        branch.below += _sentences((words.aggregation_title(found), words.aggregation_sentence(found)))
    if group.event_time:
        branch.below += _sentences(("event time of results", words.event_time_sentence(group.event_time)))
    if decision.alternatives:
        branch.below.append(_Branch(f"alternatives: {words.ESTIMATES}", _alternatives(decision.alternatives)))
    branch.below.append(_state(group))
    if group.live:
        branch.below.append(_live(group.live, group))
    return branch


def _sentences(*told: tuple[str, str | None]) -> list[_Branch]:
    """Return a branch for each title that has a sentence."""
    return [_Branch(title, [_Hanging(sentence, 0)]) for title, sentence in told if sentence]


def _graph(group: Group) -> _Branch:
    rows = []
    for edge in group.graph.edges:
        ends = f"{edge.left} {'┄┄' if edge.derived else '──'} {edge.right}"
        for predicate in edge.predicates:
            mark = "derived" if predicate.derived else ""
            rows.append((ends, words.kind_sign(predicate.kind), predicate.kind, mark, predicate.sql))
            ends = ""
    rows += [("", words.kind_sign("residual"), "residual", "", predicate.sql) for predicate in group.graph.whole]
    shown = rows if any(row[3] for row in rows) else [(*row[:3], row[4]) for row in rows]
    lines = _aligned(shown) if shown else ["no predicate joins them"]
    return _Branch(f"join graph: {words.shape_sentence(group)} ({', '.join(group.graph.relations)})", lines)


def _alternatives(alternatives: Sequence[Alternative]) -> list[str]:
    rows: list[tuple[str, ...]] = [
        ("", "scheme", "network", "memory", "cpu", "stages", "total", ""),
        ("", "", "rows sent", "rows kept", "comparisons", "", "ms busy", ""),
    ]
    for item in alternatives:
        costs = map(words.compact, (item.cost.network, item.cost.memory, item.cost.cpu))
        total = "" if item.total is None else words.compact(item.total)
        stages = str(item.cost.stages)
        rows.append(("▸" if item.chosen else "", item.scheme, *costs, stages, total, item.untaken or ""))
    return _aligned(rows, right={2, 3, 4, 5, 6})


def _state(group: Group) -> _Branch:
    if group.decision.left_to_spark:
        return _Branch("state: Spark's own")
    branch = _Branch(
        "state: !! UNBOUNDED !! it grows for as long as the query runs" if group.state_is_unbounded else "state"
    )
    if not group.state.streams:
        branch.title += "" if group.state_is_unbounded else ": none, no input is a stream"
        return branch
    longest = max((words.seconds(stream.keep_for) or 0 for stream in group.state.streams if stream.keep_for), default=0)
    rows = []
    for stream in group.state.streams:
        if stream.keep_for is None:
            advice = f": {words.why_endless(stream)}" if stream.advice else ""
            rows.append((stream.alias, "!! UNBOUNDED", "rows are kept for ever" + advice))
        else:
            length = words.seconds(stream.keep_for) or 0
            bar = "█" * max(1, round(_BAR * length / longest)) if longest and length else ""
            rows.append((stream.alias, f"kept {stream.kept}", bar))
    branch.lines = _aligned(rows)
    return branch


def _live(live: Live, group: Group) -> _Branch:
    branch = _Branch("live" + (f", up to micro-batch {live.batch}" if live.batch is not None else ""))
    if live.counters:
        branch.lines += _aligned(
            [(name.replace("_", " "), words.measure(name, value)) for name, value in live.counters], right={1}
        )
    if live.vanished:
        branch.below.append(_Branch("!! rows that cannot join !!", [_Hanging(one, 3) for one in live.vanished]))
    if live.idle:
        branch.below.append(_Branch("idle inputs", [_Hanging(sentence, 3) for sentence in live.idle]))
    compared = sorted(words.comparisons(live))
    if compared:
        rows = [("", "estimate", "actual", "ratio"), *compared]
        branch.below.append(_Branch("estimate against actual", _aligned(rows, right={1, 2, 3})))
    branch.lines += [_Hanging(sentence, 2) for sentence in words.scaling_sentences(live)]
    if live.nodes:
        branch.below += [_node(node) for node in live.nodes]
    elif live.units:
        most_to_mean = words.skew(live)
        most = max(unit.rows for unit in live.units) or 1
        fullest = "empty" if most_to_mean is None else f"the fullest holds {most_to_mean:.2f} times the mean"
        loads = [
            (
                unit.unit,
                f"{words.compact(unit.rows)} rows",
                words.byte_size(unit.bytes),
                "█" * round(_BAR * unit.rows / most),
            )
            for unit in live.units
        ]
        below = _Branch(f"units: {fullest}", _aligned(loads, right={1, 2}))
        if advice := words.skew_advice(live, group):
            below.lines.append(_Hanging(advice, 2))
        branch.below.append(below)
    return branch


def _node(node: NodeLoad) -> _Branch:
    """Return what a node of an operator tree has done: what is not zero, and what its units hold."""
    counters = [(name.replace("_", " "), words.measure(name, value)) for name, value in node.counters if value]
    loads = [(unit.unit, f"{words.compact(unit.rows)} rows", words.byte_size(unit.bytes)) for unit in node.units]
    units = _Branch("units", _aligned(loads, right={1, 2}))
    return _Branch(f"node {node.node}", _aligned(counters, right={1}), [units])


def _last_plan(stages: Sequence[Stage]) -> _Branch:
    title = f"plan, after {words.count(len(stages), 'stage')} (explain --verbose and EXPLAIN FORMATTED show each)"
    return _Branch(title, [_plan_line(line) for line in stages[-1].plan.splitlines()])


def _stages(stages: Sequence[Stage]) -> _Branch:
    """Return the first and the last plan in full, and the changes of the stages between."""
    branch = _Branch(f"plan: {words.count(len(stages), 'stage')}")
    changes = stage_changes(stages)
    last = max((change.number for change in changes if change.state != "same"), default=1)
    for change in changes:
        below = _Branch(f"{change.number} {change.name}" + (" (no change)" if change.state == "same" else ""))
        if change.skipped:
            below.lines.append(_Hanging(f"not applied: {change.skipped}", 2))
        if change.number in (1, last):
            if change.state != "same":
                below.lines += [_plan_line(line) for line in change.plan.splitlines()]
        else:
            below.lines += [_changed(line) for line in change.lines if line.state != "same"]
        branch.below.append(below)
    return branch


def _plan_line(line: str) -> str:
    return _Hanging(line, len(line) - len(line.lstrip(" ")) + 4)


def _changed(line: DiffLine) -> str:
    sign = "+" if line.state == "added" else "-"
    return _Hanging(f"{sign} {line.indent}{line.text}", len(line.indent) + 6)


# ------------------------------------------------------------------------------------------------------------- layout


def _text_lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.expandtabs(4).strip("\r\n").splitlines()] or [""]


def _aligned(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Return rows as lines with aligned columns; the last column, if it is long, wraps under itself."""
    right = set(right)
    flat = [[" ".join(cell.split()) for cell in row] for row in rows]
    widths = [min(max(words.display_width(row[i]) for row in flat), 40) for i in range(len(flat[0]))]
    lines = []
    for row in flat:
        cells = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            pad = " " * max(0, width - words.display_width(cell))
            cells.append(pad + cell if i in right else cell + pad)
        hang = sum(widths[:-1]) + 2 * (len(widths) - 1)
        lines.append(_Hanging("  ".join(cells).rstrip(), hang))
    return list(lines)


class _Hanging(str):
    """A line that knows how far its continuation is indented."""

    hang: int

    def __new__(cls, text: str, hang: int) -> _Hanging:
        line = super().__new__(cls, text)
        line.hang = hang
        return line


def _draw(root: _Branch) -> list[str]:
    lines = [*_wrap(root.title, WIDTH, 2)]
    for i, part in enumerate(root.below):
        lines += _draw_below(part, "", last=i == len(root.below) - 1)
    return lines


def _draw_below(branch: _Branch, prefix: str, *, last: bool) -> list[str]:
    elbow, rail = ("└─ ", "   ") if last else ("├─ ", "│  ")
    title = _wrap(branch.title, WIDTH - len(prefix) - 3, 2)
    lines = [prefix + elbow + title[0], *(prefix + rail + line for line in title[1:])]
    inner = prefix + rail
    margin = inner + ("│  " if branch.below else "   ")
    for line in branch.lines:
        lines += [(margin + part).rstrip() for part in _wrap(line, WIDTH - len(margin), _hang(line))]
    for i, part in enumerate(branch.below):
        lines += _draw_below(part, inner, last=i == len(branch.below) - 1)
    return lines


def _hang(line: str) -> int:
    if isinstance(line, _Hanging):
        return min(line.hang, WIDTH // 2)
    stripped = line.lstrip(" │├└─┌┬+-:|")
    return min(len(line) - len(stripped) + 2, WIDTH // 2)


def _wrap(text: str, width: int, hang: int) -> list[str]:
    """Return a line cut at spaces, or inside a word that is too long, so that every part fits."""
    text = "".join(char if char.isprintable() else " " for char in text)
    lines: list[str] = []
    rest = text
    while words.display_width(rest) > width:
        cut = _fit(rest, width)
        indent = len(rest) - len(rest.lstrip())
        space = rest.rfind(" ", indent + 1, cut + 1)
        cut = space if space > max(indent, hang) + (width - hang) // 3 else cut
        lines.append(rest[:cut].rstrip())
        rest = " " * hang + rest[cut:].lstrip()
    return [*lines, rest]


def _fit(text: str, width: int) -> int:
    used = 0
    for i, char in enumerate(text):
        used += words.display_width(char)
        if used > width:
            return i
    return len(text)
