"""Writes small streams for the papers' queries: ``python queries/papers/data.py``, a second's work.

Every file beside this one declares its streams; each gets made-up rows of its columns in ``data/``, the same at every
call. Numbers come from small ranges, so that bands, ranges and keys find partners.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from trijoin_sql.rewriter.sql.declarations import read_script

HERE = Path(__file__).parent
ROWS, FILES = 60, 3

#: Texts by the column they are for.
TEXTS = {
    "shipmode": ("TRUCK", "AIR"),
    "shipinstruct": ("NONE", "COLLECT COD"),
    "r_name": ("ASIA", "EUROPE"),
    "supp_nation": ("FRANCE", "GERMANY", "PERU"),
    "cust_nation": ("FRANCE", "GERMANY", "PERU"),
}


def value(draw: random.Random, name: str, kind: str) -> object:
    """Return a value for a column."""
    if kind == "string":
        return draw.choice(TEXTS.get(name, ("a", "b", "c")))
    if kind == "date":
        return f"199{draw.randint(5, 6)}-0{draw.randint(1, 9)}-15"
    if kind == "int" and name == "quantity":
        return draw.randint(45, 50)
    if kind in ("int", "bigint"):
        return draw.randint(0, 30)
    return round(draw.uniform(1, 1000), 2)


def write(folder: Path) -> None:
    """Write all streams into a folder, which must not be there or is one of before.

    Streams of one name in two queries have all columns of both.
    """
    streams: dict[str, dict[str, str]] = {}
    for query in sorted(HERE.glob("*.sql")):
        for name, table in read_script(query.read_text(encoding="utf-8"))[0].tables:
            streams.setdefault(name, {}).update((column.name, column.type) for column in table.columns)
    shutil.rmtree(folder, ignore_errors=True)
    for name, columns in streams.items():
        draw = random.Random(name)
        rows = [{column: value(draw, column, kind) for column, kind in columns.items()} for _ in range(ROWS)]
        (folder / name).mkdir(parents=True)
        for number in range(FILES):
            lines = [json.dumps(row) for row in rows[number::FILES]]
            (folder / name / f"{number}.json").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(HERE / "data")
