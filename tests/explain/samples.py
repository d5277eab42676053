"""Explanation documents for the tests: one for each way in which a query can end.

Those written out here are short and odd on purpose. They have no key that the product's documents lack, and beside them
stand documents that the product makes, of queries of the corpus.
"""

from __future__ import annotations

import copy
import itertools
import json
import re
from pathlib import Path
from typing import Any, cast

from trijoin_sql.rewriter.options import DEFAULTS
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.sql.declarations import read_script

from ..rewriter.goldens import QUERIES

_CYCLIC_SQL = """-- transfers that circle back within five minutes
SELECT /*+ TRIJOIN(r, s, t) */ r.account, s.amount, t.amount AS back
FROM STREAM transfers WATERMARK ts DELAY OF INTERVAL 10 SECONDS AS r
JOIN STREAM payments  WATERMARK ts DELAY OF INTERVAL 10 SECONDS AS s
  ON r.account = s.source AND s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 MINUTES
JOIN STREAM refunds   WATERMARK ts DELAY OF INTERVAL 10 SECONDS AS t
  ON s.amount < t.amount AND abs(t.amount - r.amount) < 10.5
WHERE r.city <> t.city AND r.note LIKE concat('%', s.note, t.note)
  AND t.ts BETWEEN s.ts AND s.ts + INTERVAL 5 MINUTES"""


def _cost(network: float, memory: float, cpu: float, stages: int) -> dict[str, Any]:
    return {"network": network, "memory": memory, "cpu": cpu, "stages": stages}


CYCLIC: dict[str, Any] = {
    "version": 1,
    "sql": _CYCLIC_SQL,
    "stages": [
        {
            "name": "parse",
            "plan": "Query SELECT r.account, s.amount, t.amount AS back\n"
            "└─ Filter r.city <> t.city, r.note LIKE concat('%', s.note, t.note)\n"
            "   └─ Join inner s.amount < t.amount, abs(t.amount - r.amount) < 10.5\n"
            "      ├─ Join inner r.account = s.source\n"
            "      │  ├─ Scan r: STREAM transfers\n"
            "      │  └─ Scan s: STREAM payments\n"
            "      └─ Scan t: STREAM refunds",
        },
        {
            "name": "push_down_conditions",
            "plan": "Query SELECT r.account, s.amount, t.amount AS back\n"
            "└─ Join inner s.amount < t.amount, abs(t.amount - r.amount) < 10.5, r.city <> t.city\n"
            "   ├─ Join inner r.account = s.source\n"
            "   │  ├─ Scan r: STREAM transfers\n"
            "   │  └─ Scan s: STREAM payments\n"
            "   └─ Scan t: STREAM refunds",
        },
        {
            "name": "bound_event_time",
            "plan": "Query SELECT r.account, s.amount, t.amount AS back\n"
            "└─ Join inner s.amount < t.amount, abs(t.amount - r.amount) < 10.5, r.city <> t.city\n"
            "   ├─ Join inner r.account = s.source\n"
            "   │  ├─ Scan r: STREAM transfers\n"
            "   │  └─ Scan s: STREAM payments\n"
            "   └─ Scan t: STREAM refunds",
            "skipped": "every stream has an event-time bound to every other, nothing to add to the plan",
        },
        {
            "name": "create_multi_join_nodes",
            "plan": "Query SELECT r.account, s.amount, t.amount AS back\n"
            "└─ TriJoin __trijoin_1 symmetric, 4 units a group\n"
            "   ├─ Scan r: STREAM transfers\n"
            "   ├─ Scan s: STREAM payments\n"
            "   └─ Scan t: STREAM refunds",
        },
    ],
    "groups": [
        {
            "graph": {
                "shape": "cyclic",
                "hub": None,
                "relations": ["r", "s", "t"],
                "edges": [
                    {
                        "left": "r",
                        "right": "s",
                        "derived": False,
                        "predicates": [
                            {"sql": "r.account = s.source", "kind": "equi"},
                            {"sql": "s.ts BETWEEN r.ts AND r.ts + INTERVAL '5' MINUTES", "kind": "band"},
                        ],
                    },
                    {
                        "left": "r",
                        "right": "t",
                        "derived": False,
                        "predicates": [
                            {"sql": "ABS(t.amount - r.amount) < 10.5", "kind": "band"},
                            {"sql": "r.city <> t.city", "kind": "not_equal"},
                        ],
                    },
                    {
                        "left": "s",
                        "right": "t",
                        "derived": False,
                        "predicates": [
                            {"sql": "s.amount < t.amount", "kind": "range"},
                            {"sql": "t.ts BETWEEN s.ts AND s.ts + INTERVAL '5' MINUTES", "kind": "band"},
                        ],
                    },
                ],
                "residuals": ["r.note LIKE CONCAT('%', s.note, t.note)"],
            },
            "decision": {
                "node": "TriJoin",
                "scheme": "symmetric",
                "units": 4,
                "reason": "Three streams with a predicate between every pair: each stream's units can check both of "
                "the others, so one stage does, and a stage more would cost an idle trigger's time.",
                "alternatives": [
                    {"scheme": "symmetric", "cost": _cost(36000, 720000, 1450000, 1), "total": 175.0, "chosen": True},
                    {"scheme": "matrix", "cost": _cost(48000, 2160000, 1310000, 1), "total": 200.0, "chosen": False},
                    {"scheme": "tree", "cost": _cost(91200, 1880000, 4020000, 2), "total": 225.0, "chosen": False},
                    {"scheme": "iterative", "cost": _cost(12000, 360000, 11600000, 1), "total": 250.0, "chosen": False},
                ],
            },
            "state": {
                "bounded": True,
                "streams": [
                    {"alias": "r", "keep_for": "10 minutes 10 seconds"},
                    {"alias": "s", "keep_for": "5 minutes 10 seconds"},
                    {"alias": "t", "keep_for": "10 seconds"},
                ],
            },
        }
    ],
    "advice": [],
}

CHAIN_UNBOUNDED: dict[str, Any] = {
    "version": 1,
    "sql": "SELECT * FROM STREAM clicks c JOIN STREAM views v ON c.user = v.user\n"
    "JOIN STREAM orders o ON v.price >= o.price - 5 AND v.price <= o.price + 5",
    "stages": [
        {"name": "parse", "plan": "Join\n  Join\n    Scan c\n    Scan v\n  Scan o"},
        {
            "name": "create_multi_join_nodes",
            "plan": "TriJoin semi_symmetric, hub v\n  Scan c\n  Scan v\n  Scan o",
        },
    ],
    "groups": [
        {
            "name": "__trijoin_1",
            "graph": {
                "shape": "chain",
                "hub": "v",
                "relations": ["c", "v", "o"],
                "edges": [
                    {
                        "left": "c",
                        "right": "v",
                        "derived": False,
                        "predicates": [{"sql": "c.user = v.user", "kind": "equi"}],
                    },
                    {
                        "left": "c",
                        "right": "o",
                        "derived": True,
                        "predicates": [{"sql": "c.ts - o.ts BETWEEN -600000000 AND 600000000", "kind": "band"}],
                    },
                    {
                        "left": "v",
                        "right": "o",
                        "derived": False,
                        "predicates": [
                            {"sql": "v.price >= o.price - 5", "kind": "range"},
                            {"sql": "v.price <= o.price + 5", "kind": "range"},
                        ],
                    },
                ],
                "residuals": [],
            },
            "decision": {
                "node": "TriJoin",
                "scheme": "semi_symmetric",
                "units": None,
                "reason": "A chain with hub v: packs travel from c's units to o's.",
                "alternatives": [
                    {
                        "scheme": "semi_symmetric",
                        "cost": _cost(41000.5, 9.1e6, 2.2e6, 2),
                        "total": 275.0,
                        "chosen": True,
                    },
                    {"scheme": "tree", "cost": _cost(63000, 1.4e7, 3.9e6, 2), "total": 300.0, "chosen": False},
                ],
            },
            "state": {
                "bounded": False,
                "streams": [
                    {"alias": "c", "keep_for": None},
                    {"alias": "v", "keep_for": "1 hour"},
                    {"alias": "o", "keep_for": None, "advice": "bound o.ts by v.ts, or add WITHIN"},
                ],
            },
        }
    ],
    "advice": ["State grows for ever: add WITHIN 10 MINUTES, or bound c.ts and o.ts by v.ts."],
}


def _pair(left: str, right: str, sql: str, kind: str, *, derived: bool = False) -> dict[str, Any]:
    return {"left": left, "right": right, "derived": derived, "predicates": [{"sql": sql, "kind": kind}]}


MULTI: dict[str, Any] = {
    "version": 1,
    "sql": "SELECT count(*) FROM a, b, c, d, e WHERE a.k = b.k AND b.k = c.k AND c.k <=> d.k AND d.v < e.v "
    "AND a.v != e.v WITHIN 10 MINUTES",
    "stages": [{"name": "parse", "plan": "Join"}, {"name": "create_multi_join_nodes", "plan": "MultiJoin"}],
    "groups": [
        {
            "graph": {
                "shape": "general",
                "hub": None,
                "relations": ["a", "b", "c", "d", "e"],
                "edges": [
                    _pair("a", "b", "a.k = b.k", "equi"),
                    _pair("a", "c", "a.k = c.k", "equi", derived=True),
                    _pair("a", "e", "a.v <> e.v", "not_equal"),
                    _pair("b", "c", "b.k = c.k", "equi"),
                    _pair("c", "d", "c.k <=> d.k", "null_safe"),
                    _pair("d", "e", "d.v < e.v", "range"),
                ],
                "residuals": ["a.v + b.v + c.v > 0"],
            },
            "decision": {
                "node": "MultiJoin",
                "scheme": "matrix",
                "units": 8,
                "reason": "One class of equal columns covers a, b and c.",
                "grid": [
                    {"relations": ["a", "b", "c"], "key": ["a.k", "b.k", "c.k"], "shares": 4},
                    {"relations": ["d"], "key": None, "shares": 1},
                    {"relations": ["e"], "key": None, "shares": 2},
                ],
                "options": {},
                "alternatives": [
                    {"scheme": "matrix", "cost": _cost(1.2e5, 3e6, 5e6, 1), "total": 325.0, "chosen": True},
                    {"scheme": "TriJoin(a, b, c) then BiJoin d, e", "cost": _cost(9e4, 6e6, 6e6, 3), "total": 350.0},
                ],
            },
            "state": {
                "bounded": True,
                "streams": [{"alias": alias, "keep_for": "10 minutes"} for alias in "abcde"],
            },
            "live": {
                "batch": 41,
                "counters": {
                    "tuples stored": 120000, "hubs": 8100, "packs": 9300, "bytes shuffled": 8123456, "results": 44
                },
                "units": [
                    {"unit": f"cell {i}", "rows": rows, "bytes": rows * 40}
                    for i, rows in enumerate([15000, 14800, 15200, 30100, 14900, 15050, 14750, 14990])
                ],
                "estimates": {"results": 60, "tuples stored": 118000},
                "actual": {"results": 44, "tuples stored": 120000},
            },
        }
    ],
    "advice": ["Input d is idle and holds the watermark back."],
}  # fmt: skip

_BI_GROUP: dict[str, Any] = {
    "graph": {
        "shape": "pair",
        "hub": None,
        "relations": ["bids", "asks"],
        "edges": [_pair("bids", "asks", "bids.price >= asks.price", "range")],
        "residuals": [],
    },
    "decision": {
        "node": "BiJoin",
        "scheme": "biclique",
        "units": 2,
        "reason": "Two streams without an equality: rows are spread evenly.",
        "options": {"routing": "random"},
        "alternatives": [{"scheme": "biclique", "cost": _cost(100, 2000, 300, 1), "total": 375.0, "chosen": True}],
    },
    "state": {
        "bounded": True,
        "streams": [{"alias": "bids", "keep_for": "2 hours"}, {"alias": "asks", "keep_for": "30 minutes"}],
    },
}
_SPARK_GROUP: dict[str, Any] = {
    "graph": {
        "shape": "disconnected",
        "hub": None,
        "relations": ["x", "y"],
        "edges": [],
        "residuals": ["x.a + y.b = 3 OR x.c IS NULL"],
    },
    "decision": {
        "node": "none",
        "scheme": None,
        "units": None,
        "reason": "A LEFT OUTER join is left to Spark, which runs it as it stands.",
        "alternatives": [],
    },
    "state": {"bounded": False, "streams": []},
}
BI: dict[str, Any] = {
    "version": 1,
    "sql": "SELECT * FROM bids JOIN asks ON bids.price >= asks.price",
    "stages": [{"name": "parse", "plan": "Join"}],
    "groups": [_BI_GROUP],
    "advice": [],
}
SPARK: dict[str, Any] = {
    "version": 1,
    "sql": "SELECT * FROM x LEFT JOIN y ON x.a + y.b = 3 OR x.c IS NULL",
    "stages": [{"name": "parse", "plan": "Join left"}],
    "groups": [_SPARK_GROUP],
    "advice": [],
}
SEVERAL: dict[str, Any] = {
    "version": 1,
    "sql": "SELECT * FROM bids JOIN asks ON bids.price >= asks.price LEFT JOIN y ON x.a + y.b = 3 OR x.c IS NULL",
    "stages": [*CYCLIC["stages"]],
    "groups": [copy.deepcopy(CHAIN_UNBOUNDED["groups"][0]), _BI_GROUP, _SPARK_GROUP],
    "advice": [
        "First advice.",
        "Second advice, which is a good deal longer than the first and so has to wrap somewhere.",
    ],
}
NOTHING: dict[str, Any] = {"version": 1, "sql": "SELECT 1", "stages": [], "groups": [], "advice": []}

#: Names that break out of careless quoting.
ODD_NAMES = [
    'a"b', "end", "graph", "c-d e", "日本 語", "x</script><script>alert(1)</script>", "q`z", "back\\slash",
    "#quot;", "&lt;", "new\nline", "subgraph", "'; DROP", "]]-->", "{{7*7}}", "%%{init}%%", " ", "http://example.com/x",
]  # fmt: skip


def _odd() -> dict[str, Any]:
    document = copy.deepcopy(MULTI)
    group = document["groups"][0]
    names = ODD_NAMES
    group["graph"] = {
        "shape": "general",
        "hub": names[0],
        "relations": list(names),
        "edges": [
            _pair(left, right, f'`{left}`.a < `{right}`."b" -- <!-- </style> ]]>', "range", derived=i % 2 == 1)
            for i, (left, right) in enumerate(itertools.pairwise(names))
        ],
        "residuals": ["'</script>' <> concat(\"<!--\", '&amp;', `x`)"],
    }
    group["state"]["streams"] = [{"alias": name, "keep_for": name} for name in names]
    document["sql"] = "SELECT '</script><script>alert(1)</script>', '<!--', \"&quot;\", `a\"b` /* </style> */ FROM `x`"
    document["stages"] = [{"name": "</title>", "plan": "<img src=x onerror=alert(1)>"}, {"name": "&", "plan": "-->"}]
    document["advice"] = ["<script>alert('advice')</script>", "{{ 7 * 7 }}"]
    return document


ODD: dict[str, Any] = _odd()


def _place(document: dict[str, Any], *texts: str) -> None:
    """Add to each predicate where it stands: in the order of the predicates, what they are in the SQL."""
    (group,) = document["groups"]
    ends = [(document["sql"].index(text), document["sql"].index(text) + len(text)) for text in texts]
    written = [p for edge in group["graph"]["edges"] if not edge["derived"] for p in edge["predicates"]]
    for predicate, (start, end) in zip(written, ends, strict=False):
        predicate["places"] = [[start, end]]
    group["graph"]["residual_places"] = [[[start, end]] for start, end in ends[len(written) :]]


_place(
    CYCLIC,
    "r.account = s.source", "s.ts BETWEEN r.ts AND r.ts + INTERVAL 5 MINUTES", "abs(t.amount - r.amount) < 10.5",
    "r.city <> t.city", "s.amount < t.amount", "t.ts BETWEEN s.ts AND s.ts + INTERVAL 5 MINUTES",
    "r.note LIKE concat('%', s.note, t.note)",
)  # fmt: skip
_place(CHAIN_UNBOUNDED, "c.user = v.user", "v.price >= o.price - 5", "v.price <= o.price + 5")
_place(MULTI, "a.k = b.k", "a.v != e.v", "b.k = c.k", "c.k <=> d.k", "d.v < e.v")
_place(BI, "bids.price >= asks.price")


def made(query: Path) -> dict[str, Any]:
    """Return the document of a query of the corpus, as `explain --format json` gives it."""
    catalog, statements = read_script(query.read_text("utf-8"))
    document = rewrite(re.sub(r"^INSERT INTO \w+\s+", "", statements[-1]), catalog, DEFAULTS).to_dict()
    return cast("dict[str, Any]", json.loads(json.dumps(document)))


#: An aggregated chain, an operator tree, an outer join that is refused, and one that Spark runs by itself.
MADE = ("chain/within_and_window", "papers/002_operator_tree", "negative/outer_theta", "negative/lateral")

#: All of them by name.
SAMPLES: dict[str, dict[str, Any]] = {
    "cyclic": CYCLIC,
    "chain_unbounded": CHAIN_UNBOUNDED,
    "multi": MULTI,
    "bi": BI,
    "spark": SPARK,
    "several": SEVERAL,
    "nothing": NOTHING,
    "odd": ODD,
    **{name.replace("/", "_"): made(QUERIES / f"{name}.sql") for name in MADE},
}
