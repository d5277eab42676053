"""Kernel predicates are exact: what cannot be compared exactly is left to Spark."""

from __future__ import annotations

import pytest
from trijoin_sql.rewriter.options import Settings
from trijoin_sql.rewriter.plan.conjuncts import Band, Bounds, Either, KernelPredicate

from .tables import node


def predicates(condition: str) -> list[KernelPredicate]:
    return [p for edge in node(f"SELECT 1 AS o FROM r JOIN s ON {condition}").graph.edges for p in edge.predicates]


def residuals(condition: str) -> list[str]:
    graph = node(f"SELECT 1 AS o FROM r JOIN s ON {condition}").graph
    return [p.condition.sql for p in graph.residuals]


def band(condition: str) -> tuple[str | None, str | None, str | None, bool, str | None, bool]:
    (p,) = predicates(condition)
    assert isinstance(p, Band)
    low, high = (None if end is None else p.bounds.text_of(end) for end in (p.bounds.lower, p.bounds.upper))
    return p.left.sql, p.right.sql, low, p.bounds.lower_inclusive, high, p.bounds.upper_inclusive


@pytest.mark.parametrize(
    ("condition", "kind", "op"),
    [
        ("r.id = s.id", "equi", "="),
        ("r.id <=> s.id", "null_safe", "<=>"),
        ("r.n IS NOT DISTINCT FROM s.n", "null_safe", "<=>"),
        ("r.a <> s.a", "not_equal", "<>"),
        ("r.x <= s.x", "range", "<="),
        ("s.n < r.n", "range", ">"),
        ("NOT (r.a < s.a)", "range", ">="),
    ],
)
def test_kinds(condition: str, kind: str, op: str) -> None:
    (p,) = predicates(condition)
    assert (p.kind, p.op) == (kind, op)  # type: ignore[union-attr]
    assert p.relations == ("r", "s")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("ABS(r.a - s.a) < 3", ("r.a", "s.a", "-3", False, "3", False)),
        ("abs(s.a - r.a) <= 3", ("r.a", "s.a", "-3", True, "3", True)),
        ("r.a BETWEEN s.a - 1 AND s.a + 2", ("r.a", "s.a", "-1", True, "2", True)),
        ("s.a BETWEEN r.a - 1 AND r.a + 2", ("r.a", "s.a", "-2", True, "1", True)),
        ("r.a > s.a - 1 AND 2 + s.a >= r.a", ("r.a", "s.a", "-1", False, "2", True)),
        ("r.a + 5 - 2 <= s.a + 1 AND r.a >= s.a - 9", ("r.a", "s.a", "-9", True, "-2", True)),
        ("r.a - s.a BETWEEN -1.5 AND 2.5", ("r.a", "s.a", "-1", True, "2", True)),
        ("r.a - s.a < 4 AND r.a - s.a > -4", ("r.a", "s.a", "-4", False, "4", False)),
        (
            "s.ts >= r.ts AND s.ts < r.ts + INTERVAL 5 MINUTES",
            ("r.ts", "s.ts", "INTERVAL '-5' MINUTE", False, "INTERVAL '0' DAY", True),
        ),
        ("datediff(r.d, s.d) BETWEEN -1 AND 3", ("r.d", "s.d", "-1", True, "3", True)),
        ("ABS(datediff(s.d, r.d) + 1) <= 3", ("r.d", "s.d", "-2", True, "4", True)),
        ("ABS(r.a - s.a - 5) <= 1", ("r.a", "s.a", "4", True, "6", True)),
        ("ABS(5 + s.a - r.a) < 2", ("r.a", "s.a", "3", False, "7", False)),
        ("2 >= ABS(5 + (s.a - r.a))", ("r.a", "s.a", "3", True, "7", True)),
        ("ABS(-(r.a - s.a) - 0.5) < 2", ("r.a", "s.a", "-2", True, "1", True)),
        ("r.a - s.a + 1 BETWEEN 2 * 3 AND 10 - 1", ("r.a", "s.a", "5", True, "8", True)),
        ("-r.a + s.a BETWEEN 2 AND 4", ("r.a", "s.a", "-4", True, "-2", True)),
        ("5 - r.a + s.a BETWEEN 2 AND 4", ("r.a", "s.a", "1", True, "3", True)),
        ("r.a - s.a = 7", ("r.a", "s.a", "7", True, "7", True)),
        ("r.a + s.a BETWEEN 2 AND 4", ("r.a", "-CAST(s.a AS BIGINT)", "2", True, "4", True)),
        (
            "r.ts - s.ts - INTERVAL 1 MINUTE BETWEEN INTERVAL 0 SECONDS AND INTERVAL 5 MINUTES",
            (
                "CAST(r.ts AS TIMESTAMP_NTZ)",
                "CAST(s.ts AS TIMESTAMP_NTZ)",
                "INTERVAL '1' MINUTE",
                True,
                "INTERVAL '6' MINUTE",
                True,
            ),
        ),
        (
            "r.d - s.d + INTERVAL 1 DAY BETWEEN INTERVAL 0 DAYS AND INTERVAL 2 DAYS",
            ("r.d", "s.d", "-1", True, "1", True),
        ),
        ("r.d >= s.d - 3 AND r.d <= s.d + INTERVAL 2 DAYS", ("r.d", "s.d", "-3", True, "2", True)),
    ],
)
def test_both_sides_of_a_band_become_one_predicate(condition: str, expected: tuple[object, ...]) -> None:
    """One band is one index range; two ranges would visit every pair that satisfies one of them."""
    assert band(condition) == expected


def test_a_shifted_side_is_guarded_so_that_its_overflow_still_raises() -> None:
    """``s.a - 1`` raises for the smallest INT in ANSI mode; the band alone would not compute it."""
    (p,) = predicates("r.a >= s.a - 1")
    assert [(guard.relations, guard.sql) for guard in p.guards] == [(("s",), "s.a - 1")]
    (p,) = predicates("ABS(r.a - s.a) < 3")
    assert p.guards == ()


INT = -(1 << 31), (1 << 31) - 1
BIGINT = -(1 << 63), (1 << 63) - 1


@pytest.mark.parametrize(
    ("condition", "limits", "type_name"),
    [
        ("r.a - s.a < 4", INT, "int"),
        ("r.a - s.a < 0", INT, "int"),
        ("s.a - r.a < 4", (-INT[1], -INT[0]), "int"),
        ("r.a - s.a BETWEEN 0 AND 4", INT, "int"),
        ("ABS(r.a - s.a) < 3", (INT[0] + 1, INT[1]), "int"),
        ("ABS(s.a - r.a) < 3", (-INT[1], -INT[0] - 1), "int"),
        ("ABS(r.a + 1 - s.a) < 3", (INT[0], INT[1] - 1), "int"),
        ("ABS(s.a - (r.a + 1)) < 3", (-INT[1] - 1, -INT[0] - 2), "int"),
        ("r.a + 5 - (s.a - 2) > 3", (INT[0] - 7, INT[1] - 7), "int"),
        ("ABS(CAST(r.id AS BIGINT) - s.a) < 3", (BIGINT[0] + 1, BIGINT[1]), "bigint"),
        ("CAST(r.id AS BIGINT) + 1 - s.id < 3", (BIGINT[0] - 1, BIGINT[1] - 1), "bigint"),
        ("r.a < s.a + 4", None, None),
        ("r.d - s.d < INTERVAL 2 DAYS", None, None),
    ],
)
def test_where_a_difference_overflows(condition: str, limits: tuple[int, int] | None, type_name: str | None) -> None:
    """In terms of ``r.a - s.a``, whatever the text computes: shifted, turned round, and the ABS of the least number."""
    (p,) = predicates(condition)
    assert isinstance(p, Band)
    assert p.bounds.limits == limits
    assert p.bounds.computed_as == type_name or limits is None
    assert residuals(condition) == []


def test_bands_that_overflow_for_different_rows_stay_apart() -> None:
    """The first conjunct is no difference: where it is false, Spark does not compute the second's."""
    first, second = predicates("r.a < s.a + 2 AND r.a - s.a > -4")
    assert isinstance(first, Band)
    assert isinstance(second, Band)
    assert (first.bounds.limits, second.bounds.limits) == (None, INT)
    first, second = predicates("ABS(r.a - s.a) < 9 AND ABS(r.a + 1 - s.a) < 9")
    assert isinstance(first, Band)
    assert isinstance(second, Band)
    assert first.bounds.limits != second.bounds.limits


def test_a_day_on_the_calendar_is_no_constant_length() -> None:
    """In a zone with summer time a day may have 23 hours: Spark shifts by the calendar, so Spark computes the key."""
    (p,) = predicates("r.ts >= s.ts - INTERVAL 1 DAY")
    assert (p.kind, p.right.sql) == ("range", "s.ts - INTERVAL '1' DAY")


@pytest.mark.parametrize("steps", ["+ INTERVAL 1 DAY - INTERVAL 23 HOURS", "- INTERVAL 20 HOURS - INTERVAL 20 HOURS"])
def test_steps_over_a_day_are_not_added_up(steps: str) -> None:
    """Spark takes the day on the calendar first, then the hours: their sum of one hour would be another time."""
    (p,) = predicates(f"r.ts >= s.ts {steps}")
    assert p.kind == "range"


def test_timestamps_are_subtracted_on_the_wall_clock() -> None:
    """Spark's ``ts - ts`` is the difference of local times, not of instants."""
    assert band("r.ts - s.ts <= INTERVAL 5 MINUTES AND r.ts - s.ts > INTERVAL '-5' MINUTES") == (
        "CAST(r.ts AS TIMESTAMP_NTZ)",
        "CAST(s.ts AS TIMESTAMP_NTZ)",
        "INTERVAL '-5' MINUTE",
        False,
        "INTERVAL '5' MINUTE",
        True,
    )


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("ABS(r.x - s.x) < 0.5", Bounds("double", -0.5, 0.5)),
        ("ABS(r.x - s.x) < 5D", Bounds("double", -5.0, 5.0)),
        ("abs((r.x - s.x)) <= CAST(0.5 AS DOUBLE)", Bounds("double", -0.5, 0.5, True, True)),  # as Spark's plan says it
        ("r.x - s.x < 5L", Bounds("double", upper=5.0)),
        ("ABS(r.m - s.m) <= 0.25BD", Bounds("decimal(10,2)", -25, 25, True, True)),
        ("ABS(r.m - s.m) < CAST(3 AS DECIMAL(12,2))", Bounds("decimal(10,2)", -300, 300)),
        ("0.5 >= ABS(s.x - r.x)", Bounds("double", -0.5, 0.5, True, True)),
        ("r.x - s.x BETWEEN -1 AND 2", Bounds("double", -1.0, 2.0, True, True)),
        ("r.x - s.x < 0", Bounds("double", upper=0.0)),
        ("s.x - r.x < 3", Bounds("double", lower=-3.0)),
        ("r.x - s.x > 1 AND r.x - s.x <= 2", Bounds("double", 1.0, 2.0, False, True)),
        ("r.x - s.x > 1", Bounds("double", lower=1.0, nan=True)),
        ("s.x - r.x >= 1", Bounds("double", upper=-1.0, upper_inclusive=True, nan=True)),
        ("ABS(r.m - s.m) < 0.255", Bounds("decimal(10,2)", -25, 25, True, True)),
        ("r.m - s.m - 0.5 < 1.25", Bounds("decimal(10,2)", upper=175)),
        ("r.m < s.m + 1.5", Bounds("decimal(10,2)", upper=150)),
        ("0.255 + r.m >= s.m - 1", Bounds("decimal(10,2)", lower=-125, lower_inclusive=True)),
        ("r.m BETWEEN s.m - 1.5 AND s.m + 1", Bounds("decimal(10,2)", -150, 100, True, True)),
        ("ABS(r.m - s.a) <= 1", Bounds("decimal(12,2)", -100, 100, True, True)),
    ],
)
def test_differences_of_fractions_are_bands(condition: str, expected: Bounds) -> None:
    """The kernel rounds a difference of floats as Spark does. NaN is above every number, so within what has no end."""
    (p,) = predicates(condition)
    assert isinstance(p, Band)
    assert p.bounds == expected
    assert residuals(condition) == []


@pytest.mark.parametrize(
    "condition", ["ABS(r.m - s.m) < 5D", "ABS(r.m - s.m) < CAST(0.125 AS DECIMAL(10,2))", "ABS(r.x - s.x) < 0.1F"]
)
def test_a_constant_of_another_type_or_value_is_sparks_to_compare(condition: str) -> None:
    """A decimal beside a double is a double; a cast may round."""
    assert len(residuals(condition)) == 1


def test_constants_beside_a_difference_of_floats_widen_the_band_and_spark_decides() -> None:
    """Sums of doubles are not associative: the band holds every pair that any rounding lets pass."""
    (p,) = predicates("ABS(r.x - s.x - 0.5) < 0.25")
    assert isinstance(p, Band)
    assert p.derived
    assert p.bounds.lower is not None
    assert p.bounds.upper is not None
    assert 0.75 < p.bounds.upper < 0.7501
    assert 0.2499 < p.bounds.lower < 0.25
    assert residuals("ABS(r.x - s.x - 0.5) < 0.25") == ["ABS(r__x - s__x - 0.5) < 0.25"]
    assert predicates("r.x - s.x - 0.5 > 0.25") == []


@pytest.mark.parametrize("bound", ["1e39", "16777217", "3" * 39])
def test_a_bound_that_no_float_is_stays_with_spark(bound: str) -> None:
    """Spark may round it to a FLOAT before it compares; and 1e39 is beyond what a FLOAT holds."""
    sql = f"SELECT 1 AS o FROM wide r JOIN wide s ON ABS(CAST(r.a AS FLOAT) - CAST(s.a AS FLOAT)) < {bound}"
    assert [p.kind for p in node(sql).graph.residuals] == ["residual"]
    assert [p.kind for p in node(sql.replace(bound, "16777216")).graph.edges[0].predicates] == ["band"]


def test_a_decimal_with_more_digits_than_spark_keeps_stays_with_spark() -> None:
    """Spark compares ``decimal(11,2)`` and 33 digits behind the point as something rounded."""
    assert predicates(f"r.m - s.m < 0.{'0' * 32}1") == []
    assert [p.kind for p in predicates("r.m - s.m < 1.000001")] == ["band"]


def test_a_text_is_compared_as_what_it_is_compared_with() -> None:
    """ANSI mode casts it to BIGINT beside whole numbers and to DOUBLE beside all other numbers, and so do the keys."""
    assert [(p.kind, p.left.sql, p.right.sql) for p in predicates("r.n = s.id")] == [
        ("equi", "CAST(r.n AS BIGINT)", "CAST(s.id AS BIGINT)")
    ]
    assert [(p.left.sql, p.right.sql) for p in predicates("s.m < r.n")] == [
        ("CAST(r.n AS DOUBLE)", "CAST(s.m AS DOUBLE)")
    ]
    wraps = node("SELECT 1 AS o FROM r JOIN s ON r.n = s.id", Settings(ansi=False)).graph
    assert [p.kind for p in wraps.residuals] == ["residual"]


def test_shifted_fractions_keep_their_expression_as_the_key() -> None:
    (p,) = predicates("s.x >= r.x - 0.5")
    assert (p.left.sql, p.op, p.right.sql) == ("r.x - 0.5", "<=", "s.x")


@pytest.mark.parametrize(
    "condition",
    [
        "r.n LIKE s.n",
        "NOT (r.a <=> s.a)",
        "ABS(r.a - s.a) > 3",
        "r.a * s.a = 6",
        "CAST(r.a AS BIGINT) + s.a < 6",
        "r.a - s.a = 1.5",
        "r.a - s.a + r.id < 6",
        "coalesce(r.a, s.a) = 3",
    ],
)
def test_everything_else_is_a_residual(condition: str) -> None:
    assert predicates(condition) == []
    assert len(residuals(condition)) == 1


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("r.a = s.a OR r.id < s.id", "(r.a = s.a) OR (r.id < s.id)"),
        ("r.a = 1 OR s.a = 2", "(r.a = 1) OR (s.a = 2)"),
        ("r.a IN (s.a, s.id)", "(r.a = s.a) OR (r.a = s.id)"),
        ("s.a < r.a AND s.id = r.id OR r.n = s.n", "(r.a > s.a AND r.id = s.id) OR (r.n = s.n)"),
        ("ABS(r.a - s.a) < 3 OR NOT (r.n <> s.n OR r.id = 1)", "(-3 < r.a - s.a < 3) OR (r.n = s.n AND r.id <> 1)"),
        ("r.a = s.a AND (r.id = s.id OR r.n = s.n) OR r.x < s.x",
         "(r.a = s.a AND r.id = s.id) OR (r.a = s.a AND r.n = s.n) OR (r.x < s.x)"),
        ("r.a > s.a AND r.a < s.a + 5 OR r.a <=> s.id", "(0 < r.a - s.a < 5) OR (r.a <=> s.id)"),
        ("r.a NOT BETWEEN s.a AND s.id", "(r.a < s.a) OR (r.a > s.id)"),
        ("upper(r.n) = s.n OR r.d IS NULL AND s.d IS NULL", "(upper(r.n) = s.n) OR (r.d IS NULL AND s.d IS NULL)"),
    ],
)  # fmt: skip
def test_an_or_is_searched_branch_by_branch(condition: str, shown: str) -> None:
    (p,) = predicates(condition)
    assert isinstance(p, Either)
    assert p.shown == shown
    assert p.relations == ("r", "s")
    assert residuals(condition) == []


@pytest.mark.parametrize(
    "condition",
    [
        "r.n LIKE s.n OR r.a = s.a",  # a branch that the kernel does not evaluate
        "r.a = s.a OR CAST(r.n AS INT) = s.id",  # Spark casts only where the branch before it is not true
        "r.a IN (s.a, s.x)",  # Spark compares all three as DOUBLE
        "r.a = s.a OR r.n = s.id",  # so does a comparison of a text with a number
        "r.a = s.a OR r.a / s.id = 1 OR 5 / r.a > s.a",
        " OR ".join(f"r.a = s.a + {n}" for n in range(9)),  # many branches are many searches
    ],
)
def test_an_or_of_something_else_is_a_residual(condition: str) -> None:
    assert [p for p in predicates(condition) if p.kind == "either"] == []
    assert len(residuals(condition)) == 1


def test_arithmetic_and_functions_of_one_side_are_key_expressions() -> None:
    (p,) = predicates("upper(r.n) = concat(s.n, 'x')")
    assert p.shown == "upper(r.n) = concat(s.n, 'x')"
