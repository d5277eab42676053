"""What conditions on geometries imply about the boxes around them, as text; tests/neighbours has Sedona decide."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.cautions import cautions
from trijoin_sql.rewriter.pipeline import rewrite
from trijoin_sql.rewriter.plan.conjuncts import Compare
from trijoin_sql.rewriter.plan.nodes import JoinNode
from trijoin_sql.rewriter.sql.declarations import read_script

COLUMNS = "id INT, g GEOMETRY, h GEOGRAPHY, x DOUBLE, y DOUBLE, k INT, far DOUBLE, wkt STRING, ts TIMESTAMP"
CATALOG, _ = read_script(
    "".join(f"CREATE STREAM {name} ({COLUMNS}) WATERMARK ts DELAY OF INTERVAL 1 SECOND;" for name in "rs")
)


def group_of(on: str) -> JoinNode:
    (group,) = rewrite(f"SELECT r.id, s.id AS other FROM r JOIN s ON {on} WITHIN 1 MINUTE", CATALOG).groups
    assert isinstance(group, JoinNode)
    return group


def boxes(on: str) -> list[Compare]:
    return [
        one for edge in group_of(on).graph.edges for one in edge.predicates if isinstance(one, Compare) and one.derived
    ]


def overlap(left: str, right: str, axes: str = "XY") -> list[str]:
    pairs = (("Min", "<=", "Max"), ("Max", ">=", "Min"))
    return [f"ST_{axis}{a}({left}) {op} ST_{axis}{b}({right})" for axis in axes for a, op, b in pairs]


@pytest.mark.parametrize(
    ("on", "wanted"),
    [
        ("ST_Intersects(r.g, s.g)", overlap("r.g", "s.g")),
        ("st_contains(s.g, r.g)", overlap("r.g", "s.g")),  # the first in plan order is the left one
        ("ST_Contains(s.g, ST_Point(r.x, r.y))", overlap("ST_Point(r.x, r.y)", "s.g")),
        ("ST_Touches(r.g, ST_SetSRID(ST_Envelope(s.g), 4326))", overlap("r.g", "ST_SetSRID(ST_Envelope(s.g), 4326)")),
        ("ST_DWithin(r.g, s.g, 5)", overlap("r.g", "s.g")),
        ("ST_DWithin(r.g, s.g, 5, FALSE)", overlap("r.g", "s.g")),
        ("ST_DWithin(r.g, s.g, s.far)", overlap("r.g", "s.g")),
        ("5 > ST_Distance(r.g, s.g)", overlap("r.g", "s.g")),
        ("ST_Distance(r.g, s.g) BETWEEN 1 AND 5", overlap("r.g", "s.g")),
        ("ST_DWithin(r.g, s.g, 5, TRUE)", overlap("r.g", "s.g", "Y")),  # on a globe, a circle may pass a meridian
        ("ST_DistanceSphere(r.g, s.g) <= 5", overlap("r.g", "s.g", "Y")),
        # nothing follows
        ("ST_Distance(r.g, s.g) > 5", []),
        ("ST_Disjoint(r.g, s.g)", []),
        ("NOT ST_Intersects(r.g, s.g)", []),
        ("ST_Intersects(r.g, s.g) OR r.id = 1", []),
        ("ST_DWithin(r.g, s.g, r.far + s.far)", []),
        ("ST_DWithin(r.g, s.g, 5, r.x > 1)", []),
        ("ST_Distance(r.g, s.g) < s.far", []),
        ("ST_Intersects(r.h, s.g)", []),  # other functions have its box
        # these may raise an error, also for rows that no condition is asked for
        ("ST_Intersects(ST_GeomFromWKT(r.wkt), s.g)", []),
        ("ST_Intersects(ST_Point(r.wkt, r.y), s.g)", []),
        ("ST_DWithin(r.g, s.g, s.k + 1)", []),
    ],
)
def test_what_follows(on: str, wanted: list[str]) -> None:
    assert [one.sql for one in boxes(on)] == wanted


def test_what_is_compared() -> None:
    def end(name: str, side: str, other: str, moved: str) -> str:
        least = "-" if name.endswith("Min") else ""
        return (
            f"CASE WHEN ABS({name}({side})) <= 1E300 THEN {name}({side}){moved.format(other=other)} "
            f"WHEN NOT {name}({side}) IS NULL THEN {least}1.7976931348623157E308 END"
        )

    first, *_ = boxes("ST_Intersects(r.g, s.g)")
    assert (first.left.sql, first.op, first.right.sql) == (
        end("ST_XMin", "r.g", "", ""),
        "<=",
        end("ST_XMax", "s.g", "", ""),
    )
    share = " {} 1E-12 * (ABS({}(r.g)) + ABS({{other}}(r.g)))"
    first, *_ = boxes("ST_DWithin(r.g, s.g, 2)")  # one box is wider by the distance
    assert first.left.sql == end("ST_XMin", "r.g", "ST_XMax", share.format("-", "ST_XMin") + " - 2.0000002")
    first, *_ = boxes("ST_DWithin(r.g, s.g, s.far)")  # the one of whose row the distance is
    assert first.right.sql.startswith("CASE WHEN ABS(ST_XMax(s.g)) <= 1E300 THEN ST_XMax(s.g) + 1E-12 * ")
    assert " + CAST(s.far AS DOUBLE) * 1.000000100E+00 WHEN" in first.right.sql
    first, *_ = boxes("ST_DistanceSphere(r.g, s.g) < 110000")  # in degrees
    assert first.left.sql.startswith("CASE WHEN ABS(ST_YMin(r.g)) <= 90 THEN ST_YMin(r.g) ")
    assert " - 1.0000001 WHEN" in first.left.sql


def test_texts_are_better_read_below() -> None:
    (told,) = cautions([group_of("ST_Intersects(ST_GeomFromWKT(r.wkt), s.g)")])
    assert told.startswith("CROSS PRODUCT: only ST_Intersects(ST_GeomFromWKT(r.wkt), s.g) compares r with s")
    assert told.endswith("(SELECT *, ST_GeomFromWKT(wkt) AS g FROM zones) AS z: the boxes around columns are compared")
    assert not cautions([group_of("ST_Intersects(r.g, s.g)")])
