"""What Spark's analyser does with a comparison as a whole: a condition that is cut into sides gives the same rows.

Rules of types, of decimals, of collations, of intervals and of CHAR decide by both sides, and some by a setting.
`test_char` has CHAR; `test_sql_differential` numbers, times and texts of all kinds under Spark's defaults.
"""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import trijoin_sql

from .differential import bag

#: By column its type and what is in it, row by row.
COLUMNS = {
    "lcase": ("STRING COLLATE UTF8_LCASE", ("'a'", "'A'", "'b'", "NULL")),
    "rtrim": ("STRING COLLATE UTF8_BINARY_RTRIM", ("'a  '", "'A'", "'b'", "''")),
    "text": ("STRING", ("'a'", "'B'", "'a '", "'12'")),
    "number": ("STRING", ("'1'", "' 12 '", "'2'", "NULL")),
    "day": ("STRING", ("'2024-03-31'", "'2024-3-1'", "'2024-12'", "'2024-10-27 02:30:00'")),
    "yes": ("STRING", ("'true'", "'f'", "'1'", "'no'")),
    "years": ("INTERVAL YEAR", ("INTERVAL '1' YEAR", "INTERVAL '2' YEAR", "INTERVAL '-1' YEAR", "NULL")),
    "months": ("INTERVAL MONTH", ("INTERVAL '12' MONTH", "INTERVAL '25' MONTH", "INTERVAL '0' MONTH", "NULL")),
    "days": ("INTERVAL DAY", ("INTERVAL '1' DAY", "INTERVAL '2' DAY", "INTERVAL '-1' DAY", "NULL")),
    "seconds": ("INTERVAL SECOND", ("INTERVAL '86400' SECOND", "INTERVAL '90000.5' SECOND", "NULL", "NULL")),
    "cents": ("DECIMAL(10,2)", ("1.10", "12.00", "0.10", "NULL")),
    "fine": ("DECIMAL(38,18)", ("1.100000000000000001", "12", "0.1", "0")),
    "huge": ("DECIMAL(38,0)", ("1", "12", "99999999999999999999999999999999999999", "0")),
    "flag": ("BOOLEAN", ("true", "false", "NULL", "true")),
    "i": ("INT", ("1", "12", "16777217", "NULL")),
    "f": ("FLOAT", ("1.1", "12", "16777216", "'NaN'")),
    "date": ("DATE", ("DATE'2024-03-31'", "DATE'2024-03-01'", "DATE'2024-12-01'", "NULL")),
    "time": ("TIMESTAMP", ("TIMESTAMP'2024-03-31 00:00:00'", "TIMESTAMP'2024-10-27 02:30:00'", "NULL", "NULL")),
}
CONDITIONS = (
    "r.lcase <= s.lcase",
    "r.lcase = s.text COLLATE UTF8_LCASE AND r.lcase < s.lcase || 'c'",
    "r.rtrim <= s.rtrim",
    "r.rtrim = s.rtrim OR r.lcase < s.lcase",
    "r.years < s.months",
    "r.years - s.months BETWEEN INTERVAL '-1' MONTH AND INTERVAL '1' MONTH",
    "r.days <= s.seconds",
    "r.cents < s.fine",
    "r.fine <= s.huge",
    "r.cents * s.fine < s.huge",
    "r.fine + s.huge > 1",
    "r.number < s.i",
    "r.number <= s.number AND r.number = s.i",
    "r.text < s.i",
    "r.day < s.date",
    "r.day <= s.time",
    "r.date <= s.time",
    "r.yes = s.flag AND r.text < s.text",
    "r.i < s.f",
    "r.flag < s.flag",
    "r.i IN (s.f, s.number)",
    "r.cents BETWEEN s.i AND s.f",
)
#: What these rules go by.
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"spark.sql.ansi.enabled": "false"},
    {"spark.sql.ansi.enabled": "false", "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "true"},
    {
        "spark.sql.decimalOperations.allowPrecisionLoss": "false",
        "spark.sql.legacy.literal.pickMinimumPrecision": "false",
    },
)


@pytest.fixture(params=SETTINGS, ids=lambda settings: ", ".join(name.split(".")[-2] for name in settings) or "none")
def session(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    theirs = spark.newSession()
    for name, value in request.param.items():
        theirs.conf.set(name, value)
    rows = (
        ", ".join(
            (f"{number} AS id", *(f"CAST({values[number]} AS {kind}) AS {c}" for c, (kind, values) in COLUMNS.items()))
        )
        for number in range(4)
    )
    table = theirs.sql(" UNION ALL ".join(f"SELECT {row}" for row in rows))
    for name in "rs":
        table.createOrReplaceTempView(name)
    return theirs


@pytest.mark.rare
def test_conditions_mean_what_they_mean_to_spark(session: SparkSession) -> None:
    """Also in SELECT, over the results; what Spark refuses or fails at is refused or fails here, too."""
    tj = trijoin_sql.TriJoinSession.create(session)
    for number, condition in enumerate(CONDITIONS):
        join = ("JOIN", "LEFT JOIN", "FULL JOIN")[number % 3] if " OR " not in condition else "JOIN"
        sql = f"SELECT r.id, s.id AS other, ({condition}) AS so FROM r {join} s ON {condition}"
        try:
            wanted = bag(session.sql(sql).collect())
        except PySparkException as error:
            with pytest.raises(PySparkException, match=error.getCondition()):
                tj.sql(sql).collect()
            continue
        assert bag(tj.sql(sql).collect()) == wanted, condition
