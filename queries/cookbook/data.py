"""Writes the streams that the cookbook's job files read: ``python queries/cookbook/data.py``, a second's work.

An hour of made-up events as JSON files in ``data/`` beside this file, the same at every call. Each stream mixes what
its question looks for into noise that it has to leave out. With a number of seconds, the hour before now arrives while
they pass, a file a second: something for a job to follow.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

START = datetime(2024, 5, 1, 10, tzinfo=UTC)
HOUR = 3600.0
Row = dict[str, Any]


def at(second: float) -> str:
    """Return a moment of the hour as JSON readers like it."""
    return (START + timedelta(seconds=second)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def fraud(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Card payments; now and then a card is used abroad, for nearly the same sum, minutes later."""
    number = 0
    for _ in range(150):
        card, amount, second = draw.randrange(40), round(draw.uniform(5, 300), 2), draw.uniform(0, HOUR)
        places = [(draw.choice(["DE", "FR", "IT"]), amount, second)]
        if draw.random() < 0.15:
            places.append((draw.choice(["BR", "SG"]), round(amount * draw.uniform(0.99, 1.01), 2), second + 200))
        for country, paid, when in places:
            number += 1
            yield "payments", {"id": number, "card": card, "amount": paid, "country": country, "ts": at(when)}


def sensors(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Readings of three kinds of sensors along a pipe; sensors have places and clocks, nothing in common."""
    for stream, low, high in (("temperature", 20, 90), ("pressure", 1, 9), ("vibration", 0, 4)):
        for _ in range(200):
            reading = round(draw.uniform(low, high), 2)
            yield stream, {"metre": round(draw.uniform(0, 500), 1), "reading": reading, "ts": at(draw.uniform(0, HOUR))}


def orders(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Orders with their payments and shipments, some late, some in the wrong order."""
    for number in range(150):
        second = draw.uniform(0, HOUR / 2)
        paid = second + draw.expovariate(1 / 300)
        shipped = (paid if draw.random() < 0.8 else second) + draw.expovariate(1 / 600)
        yield "orders", {"id": number, "total": round(draw.uniform(10, 500), 2), "ts": at(second)}
        yield "paid", {"order_id": number, "ts": at(paid)}
        yield "shipments", {"order_id": number, "ts": at(shipped)}


def ads(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Impressions, of which some are clicked, of which some end in a purchase."""
    for number in range(250):
        user, second = draw.randrange(60), draw.uniform(0, HOUR * 0.8)
        yield "impressions", {"campaign": number % 7, "user": user, "ts": at(second)}
        if draw.random() < 0.4:
            second += draw.uniform(1, 900)
            yield "clicks", {"user": user, "ts": at(second)}
            if draw.random() < 0.4:
                row = {"user": user, "value": round(draw.uniform(5, 200), 2), "ts": at(second + draw.uniform(5, 1200))}
                yield "purchases", row


def flows(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Flows on both sides of an address translation: the same traffic, no common identifier."""
    for _ in range(250):
        second, size, packets = draw.uniform(0, HOUR), draw.randrange(500, 100_000), draw.randrange(4, 90)
        target = f"198.51.100.{draw.randrange(20)}"
        yield (
            "inside",
            {"source": f"10.0.0.{draw.randrange(9)}", "target": target, "bytes": size, "packets": packets}
            | {"ts": at(second)},
        )
        if draw.random() < 0.9:
            outside = {
                "target": target,
                "bytes": size + draw.randrange(-40, 41),
                "packets": packets + draw.randrange(2),
            }
            yield "outside", outside | {"port": draw.randrange(1024, 65536), "ts": at(second + draw.uniform(0, 1))}


def prices(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Quotes of three currency pairs, now and then out of line with one another."""
    for stream, middle in (("eurusd", 1.08), ("usdjpy", 155.0), ("eurjpy", 1.08 * 155.0)):
        for _ in range(400):
            price = middle * (1 + draw.gauss(0, 0.0006))
            row = {"bid": round(price * 0.9999, 6), "ask": round(price * 1.0001, 6), "ts": at(draw.uniform(0, HOUR))}
            yield stream, row


def zones(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Vans on their rounds, and streets that are closed for a while."""
    for _ in range(400):
        row = {"van": draw.randrange(12), "lat": round(draw.uniform(52, 53), 4), "lon": round(draw.uniform(13, 14), 4)}
        yield "positions", row | {"ts": at(draw.uniform(0, HOUR))}
    for number in range(25):
        second, south, west = draw.uniform(0, HOUR * 0.8), draw.uniform(52, 52.9), draw.uniform(13, 13.9)
        box = {"south": south, "north": south + 0.1, "west": west, "east": west + 0.1}
        until = at(second + draw.uniform(60, 900))
        yield (
            "closures",
            {"zone": number} | {k: round(v, 4) for k, v in box.items()} | {"until": until, "ts": at(second)},
        )


def badges(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Where people's badges are seen in a building."""
    for _ in range(450):
        row = {"person": draw.randrange(30), "x": round(draw.uniform(0, 60), 1), "y": round(draw.uniform(0, 20), 1)}
        yield "badges", row | {"ts": at(draw.uniform(0, HOUR))}


def incidents(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Deployments, error rates and latencies of services."""
    for number in range(25):
        row = {
            "build": number,
            "service": draw.choice(["cart", "search", "login"]),
            "baseline_ms": draw.randrange(40, 80),
        }
        yield "deployments", row | {"ts": at(draw.uniform(0, HOUR))}
    for stream, column, most in (("errors", "per_minute", 40), ("latencies", "p99_ms", 400)):
        for _ in range(250):
            row = {"service": draw.choice(["cart", "search", "login"]), column: draw.randrange(most)}
            yield stream, row | {"ts": at(draw.uniform(0, HOUR))}


def plane(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Sensors of dust and of cars at places in a city; a place has both here and there."""
    for stream, reading, most in (("air", "dust", 90), ("traffic", "cars", 50)):
        places = [(round(draw.uniform(0, 1000), 1), round(draw.uniform(0, 700), 1)) for _ in range(40)]
        for _ in range(400):
            sensor = draw.randrange(40)
            row = {"sensor": sensor, "x": places[sensor][0], "y": places[sensor][1], reading: draw.randrange(most)}
            yield stream, row | {"ts": at(draw.uniform(0, HOUR))}


def invoices(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Invoices and the transfers that pay them, which name no invoice; some never come. A day later, one more."""
    for number in range(200):
        second, total = draw.uniform(0, HOUR), round(draw.uniform(10, 500), 2)
        yield "invoices", {"id": number, "customer": draw.randrange(60), "total": total, "ts": at(second)}
        if draw.random() < 0.85:
            paid = round(total - draw.choice([0, 0, 0, 0.25, 0.5]), 2)  # what a bank abroad keeps
            yield "transfers", {"amount": paid, "ts": at(second + draw.expovariate(1 / 400))}
    yield "invoices", {"id": 200, "customer": 0, "total": 1.0, "ts": at(24 * HOUR)}
    yield "transfers", {"amount": 1.0, "ts": at(24 * HOUR + 60)}


def market(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Quotes of a few symbols that walk up and down, and trades, some at a wrong price. A day later, more of both."""
    middle = {symbol: draw.uniform(50, 150) for symbol in ("AAA", "BBB", "CCC", "DDD")}
    for number in range(1200):
        second, symbol = HOUR * number / 1200, draw.choice([*middle])
        middle[symbol] += draw.gauss(0, 0.1)
        bid, ask = round(middle[symbol] - 0.05, 2), round(middle[symbol] + 0.05, 2)
        yield "quotes", {"symbol": symbol, "bid": bid, "ask": ask, "ts": at(second)}
        if number % 4 == 3:
            price = draw.choice([bid, ask, ask, round(bid - 0.2, 2)] if draw.random() < 0.3 else [bid, ask])
            trade = {"id": number, "symbol": symbol, "price": price, "ts": at(second + draw.uniform(0.1, 2))}
            yield "trades", trade
    for second in (24 * HOUR, 25 * HOUR):
        yield "quotes", {"symbol": "AAA", "bid": 1.0, "ask": 2.0, "ts": at(second)}
        yield "trades", {"id": -1, "symbol": "AAA", "price": 1.5, "ts": at(second)}


def thefts(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Stolen cars, and what cameras along a road see; they cannot read every plate."""
    colours = ["white", "black", "grey", "red", "green"]
    for number in range(30):
        plate, colour = f"M-{number:03}", draw.choice(colours)
        second, km = draw.uniform(0, HOUR - 900), draw.uniform(0, 100)
        yield "stolen", {"id": number, "plate": plate, "colour": colour, "km": round(km, 1), "ts": at(second)}
        for _ in range(draw.randrange(4)):
            when, where = second + draw.uniform(0, 600), round(km + draw.uniform(-1.5, 1.5), 1)
            read = plate if draw.random() < 0.5 else None
            yield (
                "sightings",
                {"camera": draw.randrange(40), "plate": read, "colour": colour, "km": where, "ts": at(when)},
            )
    for _ in range(300):
        row = {"camera": draw.randrange(40), "plate": f"X-{draw.randrange(999):03}", "colour": draw.choice(colours)}
        yield "sightings", row | {"km": round(draw.uniform(0, 100), 1), "ts": at(draw.uniform(0, HOUR))}


def grid(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Offers and demands of electricity for spans of time, and the lines that are free."""
    for stream in ("offers", "demands"):
        for number in range(150):
            second, price = draw.uniform(0, HOUR), round(draw.uniform(30, 90), 1)
            row = {"id": number, "price": price, "megawatts": draw.randrange(5, 60)}
            yield stream, row | {"starts": draw.randrange(24), "hours": draw.randrange(1, 8), "ts": at(second)}
    for number in range(60):
        yield "lines", {"line": number, "capacity": draw.randrange(10, 50), "ts": at(draw.uniform(0, HOUR))}


def cold_chain(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Doors of lorries, and how warm it is inside; a lorry without a network tells it a quarter of an hour later."""
    for number in range(120):
        lorry, second = draw.randrange(20), draw.uniform(0, HOUR - 300)
        yield "doors", {"id": number, "lorry": lorry, "ts": at(second), "came": at(second + draw.uniform(0, 5))}
        for step in range(3):
            when = second + 20 + 50 * step
            came = when + (900 if draw.random() < 0.08 else draw.uniform(0, 20))
            row = {"id": 3 * number + step, "lorry": lorry, "celsius": round(draw.gauss(5, 2), 1)}
            yield "readings", row | {"ts": at(when), "came": at(min(came, HOUR))}


def canal(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Where ships are on a canal, and a table: how far apart they have to be on each stretch of it."""
    for _ in range(500):
        row = {"ship": draw.randrange(12), "km": round(draw.uniform(0, 60), 2), "ts": at(draw.uniform(0, HOUR))}
        yield "ships", row
    for number, least in enumerate((0.5, 1.5, 0.2, 1.0, 2.0, 0.8)):
        yield "stretches", {"stretch": f"S{number}", "begins": 10 * number, "ends": 10 * (number + 1), "apart": least}


def tested_cards(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Charges of cards; some cards are tried with small sums before a large one. A day later, one of each."""
    number = 0
    for _ in range(260):
        card, second, large = draw.randrange(60), draw.uniform(0, HOUR - 700), draw.random() < 0.3
        tries = draw.randrange(6) if draw.random() < 0.25 else 0
        sums = [round(draw.uniform(0.2, 1.9), 2) for _ in range(tries)]
        for amount in [*sums, round(draw.uniform(210, 900) if large else draw.uniform(3, 190), 2)]:
            number += 1
            yield "charges", {"id": number, "card": card, "amount": amount, "ts": at(second)}
            second += draw.uniform(20, 150)
    for amount in (1.0, 500.0):
        number += 1
        yield "charges", {"id": number, "card": 0, "amount": amount, "ts": at(24 * HOUR)}


def houses(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Doors that open, motions behind them, and the codes that those who live there enter. A day later, one of each."""
    for number in range(150):
        house, second = draw.randrange(90), draw.uniform(0, HOUR - 700)
        yield "front_doors", {"id": number, "house": house, "ts": at(second)}
        for room in ("hall", "safe") if draw.random() < 0.5 else ("hall", "kitchen", "hall"):
            if draw.random() < 0.35:
                yield "codes", {"house": house, "ts": at(second + draw.uniform(1, 90))}
            second += draw.uniform(5, 320)
            yield "motions", {"house": house, "room": room, "ts": at(second)}
    yield "front_doors", {"id": 150, "house": -1, "ts": at(24 * HOUR)}
    for room in ("hall", "safe"):
        yield "motions", {"house": -1, "room": room, "ts": at(24 * HOUR)}
    yield "codes", {"house": -1, "ts": at(24 * HOUR)}


def visits(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Clicks of visitors, who go away and come back. A day later, a visit that is too long to be found."""
    pages = ["home", "shoes", "hats", "basket"]
    for visitor in range(35):
        second = draw.uniform(0, 900)
        while second < HOUR:
            yield "page_clicks", {"visitor": visitor, "page": draw.choice(pages), "ts": at(second)}
            second += draw.uniform(5, 400) if draw.random() < 0.75 else draw.uniform(500, 1500)
    for click in range(9):
        yield "page_clicks", {"visitor": 0, "page": "home", "ts": at(24 * HOUR + 540 * click)}


def levels(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Levels of rivers, a reading a minute or so; a sensor is silent now and then. A day later, one more reading."""
    for sensor in range(12):
        level, second = draw.uniform(2, 4), draw.uniform(0, 60)
        while second < HOUR:
            yield "levels", {"sensor": sensor, "level": round(level, 2), "ts": at(second)}
            level += draw.gauss(0, 0.1)
            second += draw.uniform(45, 110) if draw.random() < 0.95 else draw.uniform(170, 400)
    yield "levels", {"sensor": 0, "level": 0.0, "ts": at(24 * HOUR)}


def logins(draw: random.Random) -> Iterator[tuple[str, Row]]:
    """Logins from cities, of which some are somebody else's, and logouts. A day later, one of each."""
    cities = {"Berlin": (52.5, 13.4), "Potsdam": (52.4, 13.1), "Madrid": (40.4, -3.7), "Oslo": (59.9, 10.7)}
    for _ in range(200):
        user, second = draw.randrange(120), draw.uniform(0, HOUR - 1800)
        for city in draw.sample(sorted(cities), draw.choice([1, 1, 2])):
            lat, lon = cities[city]
            yield "logins", {"user": user, "city": city, "lat": lat, "lon": lon, "ts": at(second)}
            if draw.random() < 0.6:
                yield "logouts", {"user": user, "ts": at(second + draw.uniform(10, 600))}
            second += draw.uniform(60, 1700)
    yield "logins", {"user": -1, "city": "Oslo", "lat": 59.9, "lon": 10.7, "ts": at(24 * HOUR)}
    yield "logouts", {"user": -1, "ts": at(24 * HOUR)}


#: What makes the streams of each job file. `trijoin-sql init` writes this file with one of them.
JOBS: dict[str, Callable[[random.Random], Iterator[tuple[str, Row]]]] = {
    "fraud_bands": fraud,
    "sensor_windows": sensors,
    "order_sla": orders,
    "ad_attribution": ads,
    "flow_matching": flows,
    "price_arbitrage": prices,
    "geofence": zones,
    "met_in_the_building": badges,
    "incidents": incidents,
    "power_market": grid,
    "near_in_the_plane": plane,
    "unpaid_invoices": invoices,
    "stolen_cars": thefts,
    "last_quote": market,
    "late_rows": cold_chain,
    "ship_distance": canal,
    "card_testing": tested_cards,
    "door_and_motion": houses,
    "session_gap": visits,
    "sensor_rising": levels,
    "login_places": logins,
}


def write(folder: Path, files: int = 1, pause: float = 0.0) -> None:
    """Write all streams into a folder, each a folder of its own; what stands there is replaced.

    Each stream is cut into that many files by time, with a pause of some seconds between two of them. Rows that say
    when they came are cut by that, into twelve files at least: in one, nothing is late. Rows without a time are a
    table, a CSV file.
    """
    rows: dict[str, list[Row]] = {}
    for make in JOBS.values():
        for stream, row in make(random.Random(make.__name__)):
            rows.setdefault(stream, []).append(row)
    folder.mkdir(exist_ok=True)
    for table in [name for name, found in rows.items() if "ts" not in found[0]]:
        found = rows.pop(table)
        lines = [",".join(map(str, line)) for line in (found[0], *(row.values() for row in found))]
        (folder / f"{table}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for stream in rows:
        shutil.rmtree(folder / stream, ignore_errors=True)
        (folder / stream).mkdir(parents=True)
    for file in range(files):
        time.sleep(pause if file else 0)
        for stream, found in rows.items():
            parts = 12 if files == 1 and "came" in found[0] else 1
            for part in range(file * parts, (file + 1) * parts):
                write_file(folder / stream, found, part, files * parts)


def write_file(folder: Path, rows: list[Row], file: int, files: int) -> None:
    """Write one of the files of a stream."""
    begins, ends = at(HOUR * file / files) if file else "", at(HOUR * (file + 1) / files)
    came = [(str(row.get("came", row["ts"])), row) for row in rows]
    some = [row for when, row in came if begins <= when and (when < ends or file == files - 1)]
    lines = [json.dumps(row) for row in sorted(some, key=lambda row: str(row["ts"]))]
    unfinished = folder / f".{file + 1}.json"  # Spark reads no file with a dot in front
    unfinished.write_text("\n".join(lines) + "\n" if lines else "", encoding="utf-8")
    age = time.time() - files + file  # files are read in this order
    os.utime(unfinished, (age, age))
    unfinished.rename(folder / f"{file + 1}.json")


if __name__ == "__main__":
    here, seconds = Path(__file__).parent / "data", int(sys.argv[1]) if len(sys.argv) > 1 else 0
    if seconds:
        START = datetime.now(UTC) - timedelta(seconds=HOUR)
        print(f"an hour of events in {seconds} seconds: {here}", flush=True)
    write(here, max(seconds, 1), pause=1)
    number = sum(one.is_dir() for one in here.iterdir())
    print(f"{number} {'stream' if number == 1 else 'streams'} in {here}")
