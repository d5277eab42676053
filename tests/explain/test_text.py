"""The text tree: its width, and that it says what has to be said."""

from __future__ import annotations

import copy
import html
from typing import Any

import pytest

from trijoin_sql.explain import Explanation
from trijoin_sql.explain.text import WIDTH
from trijoin_sql.explain.wording import byte_size, compact, display_width, seconds, shorten

from .samples import CHAIN_UNBOUNDED, CYCLIC, MULTI, NOTHING, SAMPLES, SEVERAL, SPARK


@pytest.mark.parametrize("name", SAMPLES)
def test_fits_the_width(name: str) -> None:
    explanation = Explanation(SAMPLES[name])
    lines = [*str(explanation).split("\n"), *explanation.to_text(verbose=True).split("\n")]
    assert max(map(display_width, lines)) <= WIDTH
    assert all(line == line.rstrip() for line in lines)


def test_long_words_and_wide_letters_fit_too() -> None:
    document = copy.deepcopy(CYCLIC)
    document["sql"] = "SELECT " + "x" * 300 + " FROM `" + "表" * 120 + "`\n\tWHERE a = 'b'"
    document["stages"][0]["plan"] = "\n".join("   " * depth + "└─ Filter " + "y" * 90 for depth in range(30))
    document["groups"][0]["decision"]["reason"] = "because " * 60
    text = Explanation(document).to_text(verbose=True)
    assert max(map(display_width, text.split("\n"))) <= WIDTH
    assert text.count("because") == 60
    assert text.count("x") >= 300
    assert text.count("表") == 120


def test_says_what_a_reader_looks_for() -> None:
    text = str(Explanation(CYCLIC))
    for part in (
        "SELECT /*+ TRIJOIN(r, s, t) */", "TriJoin · symmetric · 4 units a group", "cyclic", "=  equi", "±  band",
        "≠  not_equal", "ƒ  residual", "Three streams with a predicate", "▸  symmetric", "kept 5 minutes 10 seconds",
        f"plan, after {len(CYCLIC['stages'])} stages",
    ):  # fmt: skip
        assert part in text
    assert "UNBOUNDED" not in text


def test_stages_of_the_rewrite_are_shown_if_they_are_asked_for() -> None:
    """They are most of the lines, and a reader looks for the decisions."""
    explanation = Explanation(CYCLIC)
    text, every = explanation.to_text(), explanation.to_text(verbose=True)
    for part in ("3 bound_event_time (no change)", "not applied: every stream has an event-time bound"):
        assert part in every
        assert part not in text
    assert all(line.strip() in text for line in CYCLIC["stages"][-1]["plan"].splitlines()[:1])
    assert text == str(explanation)


def test_advice_comes_before_the_plan() -> None:
    text = str(Explanation(CHAIN_UNBOUNDED))
    assert text.index("advice") < text.index("plan, after ")


def test_costs_are_aligned() -> None:
    lines = str(Explanation(CYCLIC)).split("\n")
    start = next(i for i, line in enumerate(lines) if "network" in line)
    head, what, *table = lines[start : start + 6]
    assert len({len(line) for line in (head, *table)}) == 1
    assert [line.split()[-2] for line in (head, *table)] == ["stages", "1", "1", "2", "1"]
    assert [head.index("network") + 7, head.index("total") + 5] == [what.index("sent") + 4, len(what)]


def test_unbounded_is_loud() -> None:
    text = str(Explanation(CHAIN_UNBOUNDED))
    assert "STATE UNBOUNDED" in text.split("\n")[0]
    assert "!! UNBOUNDED !!" in text
    assert "bound o.ts by v.ts, or add WITHIN" in text
    assert "1. State grows for ever" in text


def test_derived_edges_are_marked() -> None:
    (line,) = [line for line in str(Explanation(CHAIN_UNBOUNDED)).split("\n") if "┄┄" in line]
    assert "c ┄┄ o" in line
    assert "derived" in line


def test_unbounded_without_streams() -> None:
    document: dict[str, Any] = copy.deepcopy(CYCLIC)
    document["groups"][0]["state"] = {"bounded": False, "streams": []}
    assert "!! UNBOUNDED !!" in str(Explanation(document))
    document["groups"][0]["state"] = {"bounded": True, "streams": []}
    assert "no input is a stream" in str(Explanation(document))


def test_left_to_spark_is_not_called_unbounded() -> None:
    text = str(Explanation(SPARK))
    assert "A LEFT OUTER join is left to Spark" in text
    assert "UNBOUNDED" not in text
    assert str(Explanation(NOTHING)).startswith("TriJoin SQL: no join of ours")


def test_groups_are_numbered() -> None:
    text = str(Explanation(SEVERAL))
    assert [f"group {i} of 3" in text for i in (1, 2, 3)] == [True] * 3


def test_live_counters() -> None:
    text = str(Explanation(MULTI))
    for part in ("up to micro-batch 41", "7.75 MiB", "×0.733", "the fullest holds 1.79 times the mean", "cell 3"):
        assert part in text


def test_each_node_of_an_operator_tree_has_counters_of_its_own() -> None:
    document: dict[str, Any] = copy.deepcopy(MULTI)
    (group,) = (group for group in document["groups"] if group.get("live"))
    units = [{"unit": "slot 0", "rows": 12_500, "bytes": 4096}]
    group["live"]["nodes"] = [
        {"node": "__trijoin_1", "counters": {"results": 44, "padded": 0}, "units": units},
        {"node": "__trijoin_1_inner", "counters": {"results": 31_000}, "units": units},
    ]
    text = str(Explanation(document))
    for part in ("node __trijoin_1\n", "node __trijoin_1_inner", "results  31k", "slot 0  12.5k rows"):
        assert part in text, text
    assert "padded" not in text
    assert "__trijoin_1_inner" in Explanation(document).to_html()


def test_a_skewed_key_is_answered_with_the_routing_that_spreads_it() -> None:
    document: dict[str, Any] = copy.deepcopy(MULTI)
    (group,) = (group for group in document["groups"] if group.get("live"))
    group["decision"] |= {"scheme": "symmetric", "options": {"routing": "hash"}}
    units = len(group["live"]["units"])
    best = max(n for n in range(1, units) if units % n == 0)
    assert f"the hint ROUTING('contrand', {best})" in str(Explanation(document))
    group["decision"]["options"] = {"routing": "random"}
    assert "ROUTING" not in str(Explanation(document))


@pytest.mark.parametrize(
    ("relations", "shared", "spread"), [("rst", "rst", True), ("rst", "rs", False), ("rstu", "rstu", False)]
)
def test_a_skewed_cell_is_answered_if_it_has_a_key_that_all_share(relations: str, shared: str, spread: bool) -> None:
    """Another scheme spreads that key, for three relations or two."""
    document: dict[str, Any] = copy.deepcopy(MULTI)
    (group,) = (group for group in document["groups"] if group.get("live"))
    group["graph"]["relations"] = list(relations)
    group["decision"]["grid"] = [{"relations": list(shared), "key": ["k"] * len(shared), "shares": 4}]
    assert ("ROUTING('contrand'" in str(Explanation(document))) == spread


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "-"), (0, "0"), (950, "950"), (999.96, "1k"), (1234, "1.234k"), (36000, "36k"), (3.4e6, "3.4M"),
        (0.5, "0.5"), (1e-9, "1.0e-09"), (2e20, "10²⁰"),
    ],
)  # fmt: skip
def test_compact(number: float | None, text: str) -> None:
    assert compact(number) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 2**30, "5 GiB")])
def test_byte_size(number: int, text: str) -> None:
    assert byte_size(number) == text


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("10 minutes", 600), ("10 minutes 10 seconds", 610), ("1 hour", 3600), ("90s", 90), ("250 ms", 0.25),
        ("1 day 02:30:00", 95400), ("00:05:00", 300), ("INTERVAL '5' MINUTES", 300), ("1.5 h", 5400), ("3 cows", None),
        ("for ever", None),
    ],
)  # fmt: skip
def test_seconds(text: str, length: float | None) -> None:
    assert seconds(text) == length


def test_shorten_counts_columns() -> None:
    assert shorten("a  b\nc", 10) == "a b c"
    assert shorten("日本語日本語", 7) == "日本語…"


@pytest.mark.parametrize(
    ("layout", "decision", "words"),
    [
        ({"units": 4, "slots": 4}, None, "new rows are stored in 4 units "),
        ({"units": 1, "slots": 3}, None, "in 1 unit; 2 more hold older rows and are reached until they are empty"),
        (
            {"units": 4, "slots": 4},
            {"batch": 9, "load": 0.9, "units": 4, "wanted": 6, "streak": 2},
            "micro-batch 9: 90% of the units' capacity is used, 6 units are wanted instead of 4 (2 times in a row)",
        ),
        (
            {"units": 5, "slots": 9},
            {"batch": 9, "load": 0.9, "units": 4, "wanted": 6, "streak": 1, "subgroup": 1},
            "scaling of subgroup 1, micro-batch 9: 90% of the units' capacity is used, 6 units are wanted instead of 4",
        ),
        (
            {"units": 4, "slots": 4},
            {"batch": 9, "load": 0.5, "units": 4, "wanted": 4, "streak": 0},
            "50% of the units' capacity is used, 4 units are right",
        ),
    ],
)
def test_layout_and_scaling(layout: dict[str, int], decision: dict[str, object] | None, words: str) -> None:
    group = MULTI["groups"][0]
    policy = {"unitBytes": 256 << 20, "upper": 0.8, "lower": 0.3, "target": 0.6, "decisions": 3, "maxUnits": 64}
    live = {**group["live"], "layout": layout, "scaling": [decision] if decision else [], "policy": policy}
    live["idle"] = ["input d brings no rows"]
    explained = Explanation({**MULTI, "groups": [{**group, "live": live}]})
    text = " ".join(str(explained).replace("│", " ").split())
    page = html.unescape(explained.to_html())
    for sentence in (words.strip(), "more than 80% or less than 30% of 256 MiB a unit", "input d brings no rows"):
        assert sentence in text
        assert sentence in page


@pytest.mark.parametrize(
    ("key", "title"), [("refusals", "REFUSED ON STREAMS"), ("append_refusals", "REFUSED IN APPEND MODE")]
)
def test_what_is_refused_is_said_first(key: str, title: str) -> None:
    """In all that a person reads: that a query goes to Spark unchanged is no good news where Spark refuses it."""
    refusal = {"reason": "a LEFT JOIN of streams", "hint": "write it as an inner join"}
    explained = Explanation({**MULTI, "groups": [], key: [refusal]})
    page = html.unescape(explained.to_html())
    for form in (str(explained), page):
        assert form.index(title) < form.index("a LEFT JOIN of streams") < form.index("write it as an inner join")
    assert ("goes to Spark unchanged" in str(explained)) == ("goes to Spark unchanged" in page) == (key != "refusals")
