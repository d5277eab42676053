"""Write ``queries/tpch/`` and ``queries/tpcds/`` (`make corpus`): queries in Spark SQL, with DDL, and small data.

DuckDB's extensions hold both benchmarks: their queries, and generators of their data. Nothing of it is committed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import shutil
from pathlib import Path

import duckdb
import sqlglot
from sqlglot import exp

if __package__:
    from .loosen import loosened
else:
    from loosen import loosened

ROOT = Path(__file__).resolve().parents[2]
QUERIES = ROOT / "queries"

#: Benchmark, the distribution that holds its extension, the call that makes its data.
BENCHMARKS = (("tpch", "duckdb-ext-tpch", "dbgen"), ("tpcds", "duckdb-ext-tpcds", "dsdgen"))
_TYPES = {"INTEGER": "INT", "VARCHAR": "STRING"}


def extension(distribution: str) -> Path:
    """Return the extension file that an installed distribution holds."""
    for file in importlib.metadata.files(distribution) or ():
        if file.suffix == ".duckdb_extension":
            return Path(str(file.locate()))
    raise FileNotFoundError(f"{distribution} holds no extension")


def generate(name: str, distribution: str, call: str, scale: float) -> int:
    """Write one benchmark's queries and data; return how many queries there are."""
    folder = QUERIES / name
    shutil.rmtree(folder, ignore_errors=True)
    data = folder / "data"
    data.mkdir(parents=True)
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as db:
        db.execute(f"LOAD '{extension(distribution)}'")
        db.execute(f"CALL {call}(sf={scale})")
        columns: dict[str, list[str]] = {}
        schema = (
            "SELECT table_name, column_name, data_type FROM information_schema.columns ORDER BY 1, ordinal_position"
        )
        for table, column, kind in db.execute(schema).fetchall():
            columns.setdefault(table, []).append(f"{column} {_TYPES.get(kind, kind)}")
        for table in columns:
            db.execute(f"COPY {table} TO '{data / table}.parquet' (FORMAT parquet)")
        queries = db.execute(f"SELECT query_nr, query FROM {name}_queries()").fetchall()
        loose = {number: loosened(db, query) for number, query in queries}
    for number, query in queries:
        write(folder / f"q{number:02}.sql", columns, query)
        found = loose[number]
        if found is not None:
            text, removed = found
            (folder / "loose").mkdir(exist_ok=True)
            write(folder / "loose" / f"q{number:02}.sql", columns, text, removed)
    return len(queries)


def write(path: Path, columns: dict[str, list[str]], query: str, removed: list[str] | None = None) -> None:
    """Write one query with the tables that it reads, and what was taken out of it."""
    text = in_spark_sql(query)
    read = {table.name.lower() for table in sqlglot.parse_one(text, read="spark").find_all(exp.Table)}
    ddl = "".join(f"CREATE TABLE {table} ({', '.join(columns[table])});\n" for table in columns if table in read)
    lines = [f"-- without {' '.join(one.split())}\n" for one in removed or []]
    path.write_text(f"{''.join(lines)}{ddl}{text}\n", encoding="utf-8")


def in_spark_sql(query: str) -> str:
    """Return a query of DuckDB in Spark's SQL."""
    (statement,) = [one for one in sqlglot.parse(query, read="duckdb") if one is not None]
    return re.sub(r"[ \t]+$", "", statement.sql("spark", pretty=True), flags=re.M)


def main() -> None:
    """Write both benchmarks."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--scale", type=float, default=0.01)
    scale = parser.parse_args().scale
    for name, distribution, call in BENCHMARKS:
        print(f"{name}: {generate(name, distribution, call, scale)} queries")


if __name__ == "__main__":
    main()
