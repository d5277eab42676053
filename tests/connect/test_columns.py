"""Columns of Spark Connect as SQL text; no server is needed to write them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from trijoin_sql.rewriter.sql.dialect import parse_expression

from trijoin_sql.errors import UnavailableError
from trijoin_sql.spark.connect_columns import sql_text

pytest.importorskip("grpc", reason="Spark Connect needs pip install 'trijoin-sql[connect]'")

FRAMES: Any = {
    "r": SimpleNamespace(_plan=SimpleNamespace(_plan_id=7)),
    "s t": SimpleNamespace(_plan=SimpleNamespace(_plan_id=8)),
}


def columns() -> list[tuple[Any, str]]:
    from pyspark.sql.connect import functions as F  # noqa: N812
    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.expressions import ColumnReference

    a, b = F.col("r.a"), F.col("`s t`.`my``col`.b")
    return [
        (F.abs(a - b) < 5, "(abs((`r`.`a` - `s t`.`my``col`.`b`)) < 5)"),
        (
            (a == b) & ~(a > 1.5) | a.eqNullSafe(None),
            "(((`r`.`a` = `s t`.`my``col`.`b`) AND (NOT (`r`.`a` > 1.5D))) OR (`r`.`a` <=> NULL))",
        ),
        (a.between(-3, 1 << 40), "((`r`.`a` >= -3) AND (`r`.`a` <= 1099511627776L))"),
        (a.isin(1, "it's\\"), r"(`r`.`a` IN (1, 'it\'s\\'))"),
        (a.isNull() | a.like("x%"), "(isNull(`r`.`a`) OR (`r`.`a` LIKE 'x%'))"),
        (a.cast("bigint") + F.lit(True).cast("int"), "(CAST(`r`.`a` AS bigint) + CAST(True AS int))"),
        (a >= F.lit(datetime.date(2024, 2, 29)), "(`r`.`a` >= CAST('2024-02-29' AS date))"),
        (
            a < F.lit(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
            "(`r`.`a` < timestamp_micros(1704067200000000))",
        ),
        (
            a < b + F.lit(datetime.timedelta(minutes=-1, milliseconds=-5)),
            "(`r`.`a` < (`s t`.`my``col`.`b` + INTERVAL '-60.005000' SECOND))",
        ),
        (a < F.lit(Decimal("1.50")), "(`r`.`a` < 1.50BD)"),
        (a < float("-inf"), "(`r`.`a` < CAST('-inf' AS double))"),
        (F.expr("r.a < 3 OR r.b"), "(r.a < 3 OR r.b)"),
        (F.col("r.st").getField("my f")[0].alias("x y"), "`r`.`st`.`my f`[0] AS `x y`"),
        (F.col("r.*"), "`r`.*"),
        (Column(ColumnReference("a", 8)) > 0, "(`s t`.`a` > 0)"),
    ]


def test_columns_become_text_that_we_can_read() -> None:
    for column, text in columns():
        assert sql_text(column, FRAMES) == text
        parse_expression(text.partition(" AS `")[0].replace("`r`.*", "1"))
    assert sql_text("r.a < 3", FRAMES) == "r.a < 3"


def test_what_has_no_text_is_refused() -> None:
    from pyspark.sql.connect import functions as F  # noqa: N812
    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.expressions import ColumnReference
    from pyspark.sql.connect.window import Window

    window = F.row_number().over(Window.orderBy("a"))
    for column in (window, F.transform("l", lambda one: one), F.lit(b"x"), Column(ColumnReference("a", 9))):
        with pytest.raises(
            UnavailableError, match=r"write the condition as text|cannot be written|name it with its alias"
        ):
            sql_text(column, FRAMES)
