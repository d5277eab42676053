"""The demo's two queries, and the data that each needs."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, slots=True)
class DemoQuery:
    """A question about the streams.

    Parameters
    ----------
    name
        One word.
    question
        What it asks, in a sentence.
    sql
        The same text for the streams and for Spark batch.
    views
        For each relation its folder below the data's; the first one is that of FROM.
    reach
        How far in event time any row of a result may be from the row of the first relation: two rows further apart
        never meet, which lets Spark batch go through the year in slices.
    slice
        The width of a slice: wide enough to be worth a query, narrow enough for comparing all its pairs.
    """

    name: str
    question: str
    sql: str
    views: dict[str, str]
    reach: pd.Timedelta
    slice: pd.Timedelta


CYCLIC = DemoQuery(
    name="cyclic",
    question="Departures from all three airports within one minute of each other",
    sql="""\
SELECT e.ts AS ewr_ts, e.flight AS ewr_flight, j.ts AS jfk_ts, j.flight AS jfk_flight,
  l.ts AS lga_ts, l.flight AS lga_flight
FROM ewr AS e
JOIN jfk AS j ON ABS(e.ts - j.ts) <= INTERVAL 1 MINUTE
JOIN lga AS l ON ABS(j.ts - l.ts) <= INTERVAL 1 MINUTE AND ABS(e.ts - l.ts) <= INTERVAL 1 MINUTE""",
    views={"ewr": "departures/EWR", "jfk": "departures/JFK", "lga": "departures/LGA"},
    reach=pd.Timedelta(minutes=1),
    slice=pd.Timedelta(hours=42),
)

CHAIN = DemoQuery(
    name="chain",
    question="In poor visibility: who left from another airport for the same place within the hour, and less late?",
    sql="""\
SELECT f.ts, f.origin, f.flight, f.dest, f.delay, w.visib,
  g.origin AS alt, g.flight AS alt_flight, g.delay AS alt_delay
FROM weather AS w
JOIN departures AS f ON f.origin = w.origin AND f.ts >= w.ts AND f.ts < w.ts + INTERVAL 1 HOUR
JOIN departures AS g ON g.dest = f.dest AND g.origin <> f.origin AND g.delay < f.delay
  AND g.ts BETWEEN f.ts - INTERVAL 1 HOUR AND f.ts + INTERVAL 1 HOUR
WHERE w.visib < 5""",
    views={"weather": "weather", "departures": "departures/*"},
    reach=pd.Timedelta(hours=2),
    slice=pd.Timedelta(weeks=4),
)

QUERIES = (CYCLIC, CHAIN)
