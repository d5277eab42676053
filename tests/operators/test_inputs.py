"""How SQL over the outputs of join nodes reaches Spark."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812 (PySpark's custom)
from trijoin_sql.operators.compile.compiling import Compiling
from trijoin_sql.operators.compile.travel_types import travels, type_name


class Recorder:
    """Stands in for a session and keeps what it was asked."""

    def sql(self, text: str, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        return text, kwargs


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("SELECT j_1.a FROM j_1, j_10", "SELECT {j_1}.a FROM {j_1}, {j_10}"),
        ("SELECT `j_10`.a, '{}' FROM `j_10`", "SELECT {j_10}.a, '{{}}' FROM {j_10}"),
    ],
)
def test_nodes_are_found_by_whole_words(text: str, asked: str) -> None:
    below: dict[str, Any] = {f"j_{number}": f"frame {number}" for number in range(1, 12)}
    found, used = Compiling(Recorder(), below).run_sql(text)  # type: ignore[arg-type]
    assert found == asked
    names = {name for name in below if "{" + name + "}" in asked}
    assert used == {"args": None, **{name: below[name] for name in names}}


def test_other_text_is_left_as_it_is() -> None:
    literals = (
        """SELECT 'j_1', "j_1", 'it\\'s j_1', 'it''s j_1', r'\\', r"j_1\\", `a`` j_1` /* 'j_1 */ -- it's j_1\n FROM """
    )
    below: Any = {"j_1": "frame"}
    found, used = Compiling(Recorder(), below).run_sql(literals + "`j_1`, j_1")  # type: ignore[arg-type]
    assert found == literals + "{j_1}, {j_1}", "what is in literals, comments and other names is the user's"
    assert used == {"args": None, **below}
    assert Compiling(Recorder(), {}).run_sql("SELECT '{x}'") == ("SELECT '{x}'", {})  # type: ignore[arg-type,comparison-overlap]


MONTHS = T.YearMonthIntervalType()
if hasattr(T, "GeometryType"):  # not in Spark 4.0
    PLACES = T.GeometryType(0), T.ArrayType(T.StructType([T.StructField("geometry", T.GeographyType(4326))]))
else:
    PLACES = ()


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [
        (MONTHS, True),
        (T.DayTimeIntervalType(), True),
        (T.ArrayType(T.DayTimeIntervalType()), True),
        (T.TimestampType(), True),
        (T.ArrayType(T.StructType([T.StructField("at", T.TimestampType()), T.StructField("on", T.DateType())])), True),
        (T.VariantType(), True),
        (T.ArrayType(T.VariantType()), True),
        (T.MapType(T.StringType("UTF8_LCASE"), T.DecimalType(38, 18)), True),
        (T.NullType(), True),
        (T.CalendarIntervalType(), False),
        (T.MapType(T.StringType(), T.CalendarIntervalType()), False),
        (T.ArrayType(MONTHS), False),
        (T.StructType([T.StructField("a", T.IntegerType()), T.StructField("b", MONTHS)]), False),
        (T.StructType([T.StructField("a", T.IntegerType()), T.StructField("a", T.StringType())]), False),
        *((place, False) for place in PLACES),
        (VectorUDT(), False),
        (T.ArrayType(VectorUDT()), False),
        (T.StructType([T.StructField("geometry", T.BinaryType())]), True),
    ],
    ids=lambda value: value.simpleString() if isinstance(value, T.DataType) else None,
)
def test_which_payload_travels(data_type: T.DataType, expected: bool) -> None:
    """What does not is refused when the query is compiled, not in the middle of its first micro-batch."""
    assert travels(data_type) is expected


@pytest.mark.parametrize("name", ["a", "from", "1", "1a", "1e5", "2L", "b c", "x`y", "é", "a.b"])
def test_spark_reads_the_names_of_types(spark: SparkSession, name: str) -> None:
    """Whatever fields are called: ``simpleString`` writes them as they are."""
    inner = T.StructType([T.StructField(name, T.MapType(T.StringType(), T.IntegerType()))])
    kind = T.ArrayType(inner)
    assert spark.sql(f"SELECT CAST(NULL AS {type_name(kind)}) AS a").schema["a"].dataType == kind
