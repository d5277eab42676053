"""Bands that follow from distances: each form by hand, and no pair that a condition accepts is left out."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from trijoin_sql.rewriter.options import DEFAULTS
from trijoin_sql.rewriter.pipeline import Rewrite, rewrite
from trijoin_sql.rewriter.plan.conjuncts import Band, Either
from trijoin_sql.rewriter.plan.nodes import JoinNode
from trijoin_sql.rewriter.sql.declarations import read_script

COLUMNS = """id INT, x DOUBLE, y DOUBLE, f FLOAT, g FLOAT, i INT, j INT, k SMALLINT, b BIGINT, m DECIMAL(10,2),
    n DECIMAL(10,2), wide DECIMAL(30,10), name STRING, lat DOUBLE, lon DOUBLE, ts TIMESTAMP"""
CATALOG, _ = read_script(
    "".join(f"CREATE STREAM {name} ({COLUMNS}) WATERMARK ts DELAY OF INTERVAL 1 SECOND;" for name in "rst")
)
WRAPS = dataclasses.replace(DEFAULTS, ansi=False)

A = (
    "POWER(SIN((RADIANS(s.lat) - RADIANS(r.lat)) / 2), 2)"
    " + COS(RADIANS(r.lat)) * COS(RADIANS(s.lat)) * POWER(SIN((RADIANS(s.lon) - RADIANS(r.lon)) / 2), 2)"
)
HAVERSINE = f"2 * 6371 * ASIN(SQRT({A}))"
COSINES = (
    "6371 * ACOS(SIN(RADIANS(r.lat)) * SIN(RADIANS(s.lat))"
    " + COS(RADIANS(r.lat)) * COS(RADIANS(s.lat)) * COS(RADIANS(s.lon - r.lon)))"
)
GLOBE = "r.lat BETWEEN -90 AND 90 AND ABS(s.lat) <= 90"
LATITUDE = "-0.0156962 <= RADIANS(r.lat) - RADIANS(s.lat) <= 0.0156962"


def rewritten(on: str, settings: Any = DEFAULTS) -> Rewrite:
    return rewrite(f"SELECT 1 AS one FROM r JOIN s ON {on}", CATALOG, settings)


def derived(on: str, settings: Any = DEFAULTS) -> list[Band]:
    (group,) = rewritten(on, settings).groups
    assert isinstance(group, JoinNode)
    return [one for edge in group.graph.edges for one in edge.predicates if isinstance(one, Band) and one.derived]


def around(size: str, *columns: str) -> list[str]:
    return [f"-{size} <= r.{column} - s.{column} <= {size}" for column in columns]


@pytest.mark.parametrize(
    ("on", "bands"),
    [
        ("POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2) <= 25", around("5.00001", "x", "y")),
        ("25 >= POW(s.x - r.x, 2) + POWER(r.y - s.y, 2.0)", around("5.00001", "x", "y")),
        ("(r.x - s.x) * (r.x - s.x) + (s.y - r.y) * (s.y - r.y) < 6.25", around("2.50001", "x", "y")),
        ("SQRT(POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2)) < 3", around("3.00001", "x", "y")),
        ("POWER(POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2), 0.5) < 3", around("3.00001", "x", "y")),
        ("ABS(r.x - s.x) + ABS(r.y - s.y) <= 2", around("2.00001", "x", "y")),
        ("hypot(r.x - s.x, r.y - s.y) < 2", around("2.00001", "x", "y")),
        ("NOT hypot(r.x - s.x, r.y - s.y) > 2", around("2.00001", "x", "y")),
        ("2 * SQRT(POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2)) / 4 + 1 < 3", around("4.00001", "x", "y")),
        ("POWER((r.x - s.x) / 3, 2) + ABS(2 * (r.y - s.y)) <= 1", [*around("3.00001", "x"), *around("0.500001", "y")]),
        ("hypot(r.x - s.x - 1, r.i - s.i - 1) <= 2", ["-1.00001 <= r.x - s.x <= 3.00001", "-1 <= r.i - s.i <= 3"]),
        ("POWER(r.f - s.f, 2) + POWER(r.g - s.g, 2) <= 25", around("5.00001", "f", "g")),
        ("POWER(r.i - s.i, 2) + POWER(r.j - s.j, 2) <= 24", around("4", "i", "j")),
        ("(r.i - s.i) * (r.i - s.i) + (r.j - s.j) * (r.j - s.j) <= 25", around("5", "i", "j")),
        ("ABS(r.m - s.m) + ABS(r.n - s.n) <= 2.5", around("2.50", "m", "n")),
        ("SQRT((r.m - s.m) * (r.m - s.m) + (r.n - s.n) * (r.n - s.n)) <= 2.5", around("2.50", "m", "n")),
        ("POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2) BETWEEN 1 AND 25", around("5.00001", "x", "y")),
        ("levenshtein(r.name, s.name) < 2", ["-2 <= LENGTH(r.name) - LENGTH(s.name) <= 2"]),
        ("levenshtein(LOWER(s.name), r.name) = 1", ["-1 <= LENGTH(r.name) - LENGTH(LOWER(s.name)) <= 1"]),
        ("levenshtein(r.name, s.name, 2) < 2", []),  # which is -1 beyond
        ("levenshtein(r.name, DATE_FORMAT(s.ts, s.name)) < 2", []),  # it may fail
        # GREATEST passes over NULL
        ("GREATEST(ABS(r.x - s.x), ABS(r.y - s.y)) <= 2", []),
        (
            "GREATEST(ABS(r.x - s.x), ABS(r.y - s.y)) <= 2 AND r.x IS NOT NULL AND s.x > 0",
            around("2.00001", "x"),
        ),
        ("GREATEST(ABS(r.x - s.x), ABS(r.y - s.y)) <= 2 AND r.x < s.x AND r.y <> s.y", around("2.00001", "x", "y")),
        ("GREATEST(ABS(r.x - s.x), ABS(r.y - s.y)) <= 2 AND r.x <=> s.x", []),
        # nothing follows
        ("POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2) >= 25", []),
        ("POWER(r.x - s.x, 3) + POWER(r.y - s.y, 2) <= 25", []),
        ("POWER(r.x - s.x, 2) - POWER(r.y - s.y, 2) <= 25", []),
        ("POWER(r.x - s.x, 2) + r.y * s.y <= 25", []),
        ("POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2) <= r.i", []),
        ("POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2) <= -1", []),
        ("POWER(r.x + s.x, 2) + POWER(r.y + s.y, 2) <= 25", []),
        ("POWER(r.name - s.name, 2) + POWER(r.x - s.x, 2) <= 25", around("5.00001", "x")),
        ("(r.wide - s.wide) * (r.wide - s.wide) + ABS(r.n - s.n) <= 25", []),  # its square loses digits
        ("POWER(1 / r.x - s.x, 2) + POWER(r.y - s.y, 2) <= 25", around("5.00001", "y")),  # the key may raise
        ("LEAST(ABS(r.x - s.x), ABS(r.y - s.y)) <= 2", []),
        # distances on a globe
        (f"{HAVERSINE} < 100 AND {GLOBE}", [LATITUDE]),
        (f"6371 * 2 * ATAN2(SQRT({A}), SQRT(1 - ({A}))) < 100 AND {GLOBE}", [LATITUDE]),
        (f"6371 * 2 * ATAN2(SQRT({A}), SQRT(2 - ({A}))) < 100 AND {GLOBE}", []),
        (f"12742 * ASIN(LEAST(1.0, SQRT({A}))) <= 100 AND {GLOBE}", [LATITUDE]),
        (f"{COSINES} < 100 AND {GLOBE}", [LATITUDE]),
        (f"{COSINES.replace('ACOS(', 'ACOS(LEAST(1, ')}) < 100 AND {GLOBE}", []),  # NULL and NaN are accepted
        (f"{HAVERSINE} < 30000 AND {GLOBE}", []),  # all are as near
        (
            f"{HAVERSINE} < 100 AND r.lat BETWEEN 36 AND 70 AND s.lat BETWEEN 36 AND 70"
            " AND r.lon BETWEEN -20 AND 40 AND s.lon BETWEEN -20 AND 40",
            [LATITUDE, "-0.0458961 <= RADIANS(r.lon) - RADIANS(s.lon) <= 0.0458961"],
        ),
        # beyond the date line a small distance is a large difference
        (f"{HAVERSINE} < 100 AND r.lat BETWEEN 36 AND 70 AND s.lat BETWEEN 36 AND 70 AND r.lon BETWEEN -180 AND 180"
         " AND s.lon BETWEEN -180 AND 180", [LATITUDE]),
        # and near a pole
        (f"{HAVERSINE} < 100 AND {GLOBE} AND r.lon BETWEEN -20 AND 40 AND s.lon BETWEEN -20 AND 40", [LATITUDE]),
    ],
)  # fmt: skip
def test_the_bands_of_each_form(on: str, bands: list[str]) -> None:
    found = [one.sql for one in derived(on)]
    assert len(found) == len(bands), found
    assert all(one.startswith(wanted) for one, wanted in zip(found, bands, strict=True)), found


def test_the_condition_stays_and_the_join_is_no_product() -> None:
    on = "POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2) <= 25"
    found = rewritten(f"{on} WITHIN 1 MINUTE")
    (group,) = found.to_dict()["groups"]
    assert not found.cautions
    assert group["graph"]["shape"] == "pair"
    (edge,) = group["graph"]["edges"]
    assert [(one["kind"], one.get("derived", False)) for one in edge["predicates"]] == [
        ("band", True),
        ("band", True),
        ("band", True),
        ("residual", False),
    ]
    assert dataclasses.replace(DEFAULTS, strict=True) != DEFAULTS
    assert rewritten(f"{on} WITHIN 1 MINUTE", dataclasses.replace(DEFAULTS, strict=True)).converted


BEYOND = [f"{one}.lat NOT BETWEEN -90 AND 90" for one in "rs"]
FINITE = [f"({one}.lat < -90 OR {one}.lat > 90) AND NOT ISNAN({one}.lat)" for one in "rs"]


@pytest.mark.parametrize(
    ("on", "text", "flags"),
    [
        (f"{HAVERSINE} < 100", [LATITUDE, *BEYOND], FINITE),
        (f"{COSINES} < 100", [LATITUDE, *BEYOND], FINITE),
        (f"12742 * ASIN(LEAST(1.0, SQRT({A}))) <= 100", [LATITUDE, *BEYOND], FINITE),
        (f"{HAVERSINE} < 100 AND r.lat BETWEEN -90 AND 90", [LATITUDE, BEYOND[1]], FINITE[1:]),
        (f"{HAVERSINE} < 100 AND ABS(s.lat) <= 180 AND ABS(r.lat) <= 90", [LATITUDE, BEYOND[1]], FINITE[1:]),
        (  # no ABS of whole numbers, which fails at the least one, and these are never NaN
            f"{HAVERSINE} < 100".replace("s.lat", "s.i").replace("r.lat", "r.m"),
            [LATITUDE.replace("s.lat", "s.i").replace("r.lat", "r.m"),
             "r.m NOT BETWEEN -90 AND 90", "s.i NOT BETWEEN -90 AND 90"],
            ["(r.m < -90 OR r.m > 90)", "(s.i < -90 OR s.i > 90)"],
        ),
        (  # angles
            f"{HAVERSINE} < 100".replace("RADIANS(r.lat)", "r.x").replace("RADIANS(s.lat)", "s.x"),
            [LATITUDE.replace("RADIANS(r.lat)", "r.x").replace("RADIANS(s.lat)", "s.x"),
             *(f"{one}.x NOT BETWEEN -1.5707963267948966 AND 1.5707963267948966" for one in "rs")],
            [flag.replace("lat", "x").replace("90", "1.5707963267948966") for flag in FINITE],
        ),
    ],
)  # fmt: skip
def test_a_band_of_latitudes_has_the_rows_beyond_the_poles_as_exceptions(
    on: str, text: list[str], flags: list[str]
) -> None:
    found = rewritten(on)
    (group,) = found.groups
    assert isinstance(group, JoinNode)
    (one,) = group.graph.edges[0].predicates
    assert isinstance(one, Either)
    assert (one.sql, one.derived, one.exceptions) == (" OR ".join(text), True, True)
    assert one.shown.split(") OR (", 1)[1] == ") OR (".join(flags) + ")"
    assert not found.cautions
    assert found.to_dict()["groups"][0]["graph"]["shape"] == "pair"


def test_exceptions_change_no_decision() -> None:
    """They are too few: what runs costs as much as where the query rules them out."""
    more = "JOIN t ON ABS(s.x - t.x) < 5 WITHIN 1 MINUTE"
    (alone,), (beside,) = (rewritten(f"{HAVERSINE} < 100 {one} {more}").groups for one in (f"AND {GLOBE}", ""))
    assert isinstance(alone, JoinNode)
    assert isinstance(beside, JoinNode)
    assert alone.decision == beside.decision


@pytest.mark.parametrize(
    "on",
    [
        f"{HAVERSINE} < 30000",  # all are as near
        f"{HAVERSINE} < 100".replace("r.lat", "r.name"),
        f"{HAVERSINE} < 100".replace("r.lat", "(1 / r.lat)"),  # it may raise
        f"{COSINES.replace('ACOS(', 'ACOS(LEAST(1, ')}) < 100",
    ],
)
def test_a_distance_on_a_globe_that_says_nothing(on: str) -> None:
    (caution,) = rewritten(on).cautions
    assert "add an equality" in caution


def test_integers_that_wrap_around_bound_nothing() -> None:
    assert derived("(r.i - s.i) * (r.i - s.i) + (r.j - s.j) * (r.j - s.j) <= 25", WRAPS) == []
    assert derived("POWER(r.i - s.i, 2) + POWER(r.j - s.j, 2) <= 25", WRAPS) == []
    assert derived("ABS(r.i) + POWER(r.x - s.x, 2) <= 25", WRAPS) == []  # of the least INT it is negative
    assert len(derived("ABS(r.i) + POWER(r.x - s.x, 2) <= 25")) == 1
    wider = [f"POWER(CAST(r.{one} AS DOUBLE) - s.{one}, 2)" for one in "ij"]
    assert len(derived(f"{' + '.join(wider)} <= 25", WRAPS)) == 2
    assert len(derived("POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2) <= 25", WRAPS)) == 2


def test_a_derived_band_raises_no_error() -> None:
    for band in derived("POWER(r.i - s.i, 2) + POWER(r.j - s.j, 2) <= 25"):
        assert (band.bounds.limits, band.guards) == (None, ())


def test_what_turns_out_to_have_another_type_is_left_to_spark() -> None:
    on = "POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2) <= 25"
    one, other = (band.sql for band in derived(on))
    left = dataclasses.replace(DEFAULTS, left_to_spark=frozenset({one}))
    assert [band.sql for band in derived(on, left)] == [other]
    assert derived(on, dataclasses.replace(DEFAULTS, left_to_spark=frozenset({on}))) == []
    globe = f"{HAVERSINE} < 100"
    for graph in (one.graph for one in rewritten(globe).groups if isinstance(one, JoinNode)):
        (either,) = graph.edges[0].predicates
        assert isinstance(either, Either)
        of_band = dataclasses.replace(DEFAULTS, left_to_spark=frozenset({either.branches[0][0].sql}))
        assert rewritten(globe, of_band).cautions


# -------------------------------------------------------------------------------------------- no pair is left out

Row = dict[str, Any]
SIZES = (0.0, 1e-200, 1e-30, 1e-3, 0.5, 1.0, 5.0, 25.0, 1e3, 1e7)


def hypot(a: Any, b: Any) -> float:
    return math.hypot(float(a), float(b))


#: A condition with ``{c}`` for its constant, how NumPy computes what it compares, and its columns.
PLANE: dict[str, Callable[[Row, Row], Any]] = {
    "POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2)": lambda r, s: (r["x"] - s["x"]) ** 2 + (r["y"] - s["y"]) ** 2,
    "SQRT(POWER(r.x - s.x, 2) + POWER(r.y - s.y, 2))": lambda r, s: np.sqrt(
        (r["x"] - s["x"]) ** 2 + (r["y"] - s["y"]) ** 2
    ),
    "(r.f - s.f) * (r.f - s.f) + (r.g - s.g) * (r.g - s.g)": lambda r, s: (
        (r["f"] - s["f"]) * (r["f"] - s["f"]) + (r["g"] - s["g"]) * (r["g"] - s["g"])
    ),
    "ABS(r.f - s.f) + ABS(r.g - s.g)": lambda r, s: abs(r["f"] - s["f"]) + abs(r["g"] - s["g"]),
    "ABS(r.x - s.x) + ABS(r.y - s.y)": lambda r, s: abs(r["x"] - s["x"]) + abs(r["y"] - s["y"]),
    "hypot(r.x - s.x, r.y - s.y)": lambda r, s: hypot(r["x"] - s["x"], r["y"] - s["y"]),
    "POWER((r.x - s.x) / 7, 4) + 3 * POWER(r.y - s.y - 2, 2)": lambda r, s: (
        ((r["x"] - s["x"]) / 7) ** 4 + 3 * (r["y"] - s["y"] - 2) ** 2
    ),
    "(r.x - s.x) * 0.1 * (r.x - s.x) + SQRT(ABS(r.y - s.y))": lambda r, s: (
        (r["x"] - s["x"]) * 0.1 * (r["x"] - s["x"]) + np.sqrt(abs(r["y"] - s["y"]))
    ),
}


def numbers(chance: random.Random, kind: Any, size: float) -> Iterator[tuple[Any, Any]]:
    """Yield pairs of numbers whose difference is about ``size``, to a few of the last digits."""
    root = math.sqrt(size)
    edge = [0.0, 2.0, size, root, size**0.25 * 7, size / 3, math.sqrt(size / 3) + 2, math.sqrt(size * 10), size**2]
    for _ in range(60):
        one = kind(chance.choice([0.0, 1.0, -0.0, chance.uniform(-9, 9), chance.uniform(-1e6, 1e6), 1e-44, 1e-310]))
        other = kind(one - kind(chance.choice(edge) * chance.choice([-1, 1])))
        for _ in range(chance.randrange(4)):
            other = np.nextafter(other, kind(chance.choice([-np.inf, np.inf])))
        yield one, other
    for one in (np.nan, np.inf, -np.inf, 1e300, 1e-320):
        yield kind(one), kind(chance.choice([one, 0.0, -one]))


@pytest.mark.parametrize("form", PLANE)
@pytest.mark.parametrize("size", SIZES)
def test_no_pair_that_is_near_is_left_out(form: str, size: float) -> None:
    chance = random.Random(f"{form}{size}")
    bands = derived(f"{form} <= {size!r}")
    assert len(bands) == 2
    accepted = 0
    with np.errstate(all="ignore"):
        xs, fs = (list(numbers(chance, kind, size)) for kind in (np.float64, np.float32))
        for _ in range(1500):
            (x, u), (y, v), (f, p), (g, q) = (chance.choice(some) for some in (xs, xs, fs, fs))
            r, s = {"x": x, "y": y, "f": f, "g": g}, {"x": u, "y": v, "f": p, "g": q}
            if not PLANE[form](r, s) <= size:
                continue
            accepted += 1
            for band in bands:
                column = band.left.columns[0][1]
                difference = r[column] - s[column]
                assert band.bounds.lower <= float(difference) <= band.bounds.upper, (r, s, band.sql)
    assert accepted > 20


EUROPE = ((36.0, 70.0), (-20.0, 40.0))


def haversine(r: Row, s: Row) -> Any:
    one, other = np.radians(r["lat"]), np.radians(s["lat"])
    a = np.sin((other - one) / 2) ** 2
    a = a + np.cos(one) * np.cos(other) * np.sin((np.radians(s["lon"]) - np.radians(r["lon"])) / 2) ** 2
    return 2 * 6371 * np.arcsin(np.sqrt(a))


def cosines(r: Row, s: Row) -> Any:
    one, other = np.radians(r["lat"]), np.radians(s["lat"])
    inside = np.sin(one) * np.sin(other) + np.cos(one) * np.cos(other) * np.cos(np.radians(s["lon"] - r["lon"]))
    return 6371 * np.arccos(inside)


@pytest.mark.parametrize(("form", "compute"), [(HAVERSINE, haversine), (COSINES, cosines)])
@pytest.mark.parametrize("size", [0.0, 1e-6, 0.01, 1.0, 100.0, 2000.0, 9000.0])
@pytest.mark.parametrize(
    "ends", [((-90.0, 90.0), (-180.0, 180.0)), ((-90.0, 90.0), (0.0, 1e17)), ((36.0, 70.0), (-20.0, 40.0))]
)
def test_no_pair_on_the_globe_is_left_out(
    form: str, compute: Callable[[Row, Row], Any], size: float, ends: tuple[tuple[float, float], tuple[float, float]]
) -> None:
    chance = random.Random(f"{form}{size}{ends}")
    named = tuple(zip(("lat", "lon"), ends, strict=True))
    known = [f"{one}.{name} BETWEEN {low!r} AND {high!r}" for one in "rs" for name, (low, high) in named]
    bands = derived(f"{form} <= {size!r} AND {' AND '.join(known)}")
    assert bands
    degrees = math.degrees(size / 6371)
    accepted = 0
    with np.errstate(all="ignore"):
        for _ in range(3000):
            r: Row = {}
            s: Row = {}
            for column, (low, high) in named:
                r[column] = np.float64(chance.choice([low, high, chance.uniform(low, high)]))
                moved = r[column] + chance.choice([0, degrees, degrees / 2, 1e-9]) * chance.choice([-1, 1])
                for _ in range(chance.randrange(3)):
                    moved = np.nextafter(moved, chance.choice([-np.inf, np.inf]))
                s[column] = np.float64(min(max(chance.choice([moved, moved, -r[column], low, high]), low), high))
            if not compute(r, s) <= size:
                continue
            accepted += 1
            for band in bands:
                column = band.left.columns[0][1]
                difference = np.radians(r[column]) - np.radians(s[column])
                if "RADIANS" not in band.left.sql:
                    difference = r[column] - s[column]
                assert band.bounds.lower <= difference <= band.bounds.upper, (r, s, band.sql)
    assert accepted > 20


@pytest.mark.parametrize(("form", "compute"), [(HAVERSINE, haversine), (COSINES, cosines)])
@pytest.mark.parametrize("size", [0.0, 0.01, 5.0, 2000.0])
def test_no_pair_beyond_the_poles_is_left_out(form: str, compute: Callable[[Row, Row], Any], size: float) -> None:
    """Latitudes may turn on beyond a pole, be infinite or NaN, or so large that rounding decides."""
    chance = random.Random(f"{form}{size}")
    (group,) = rewritten(f"{form} <= {size!r}").groups
    assert isinstance(group, JoinNode)
    (either,) = group.graph.edges[0].predicates
    assert isinstance(either, Either)
    band = either.branches[0][0]
    assert isinstance(band, Band)
    fixed = [90.0, -90.0, np.nextafter(90.0, 91), 91.0, 1e9, 1e17, -1e300, np.inf, -np.inf, np.nan]
    near = [0.0, 1e-9, math.degrees(size / 6371)]
    accepted = outside = 0
    with np.errstate(all="ignore"):
        for _ in range(20_000):
            lat, lon = np.float64(chance.choice([chance.uniform(-400, 400), *fixed])), chance.uniform(-180, 180)
            moved = chance.choice([lat, 180 - lat, lat + 360, chance.choice(fixed)]) + chance.choice(near)
            r = {"lat": lat, "lon": np.float64(lon)}
            s = {"lat": np.float64(moved), "lon": np.float64(lon + chance.choice([0, 180, 360, *near]))}
            if not compute(r, s) <= size:
                continue
            accepted += 1
            within = band.bounds.lower <= np.radians(lat) - np.radians(s["lat"]) <= band.bounds.upper
            outside += not within
            assert within or any(abs(one["lat"]) > 90 and not np.isnan(one["lat"]) for one in (r, s)), (r, s)
    assert accepted > 200
    assert outside > 10
