"""``trijoin-sql bench``."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ..errors import InvalidSettingError
from ..operators.schemes import SCHEMES
from .engines import Outcome, median, run_duckdb, run_scheme, run_spark
from .report import as_document, as_table, plot, write_json
from .workloads import WORKLOADS, write_files

#: Engines to compare with.
OTHERS = ("spark", "duckdb")

HELP = """Measure schemes, side by side in one run: throughput, latency, intermediates, bytes shuffled.

\b
workloads  chain_band, cyclic_band, chain_equal, common_key, zipf_key, pair_band (none: the first two)

Every engine sees the same files, one a micro-batch; the first micro-batch, which starts Python and compiles code, does
not count. Several runs take turns; the table shows the run with the median throughput. Absolute figures are worth
little on a shared machine: compare within a run.
"""


def bench(
    workload: Annotated[list[str] | None, typer.Argument(metavar="WORKLOAD", show_default=False)] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows of each stream.")] = 100_000,
    batches: Annotated[int, typer.Option(min=2, help="Micro-batches.")] = 6,
    scheme: Annotated[
        list[str] | None, typer.Option(help="A scheme; as often as needed.", show_default="all that fit")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="spark|duckdb", help="Another engine on the same data.", show_default=False),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each engine.")] = 3,
    seed: Annotated[int, typer.Option(help="Of the data.")] = 1,
    units: Annotated[int, typer.Option(min=1, help="Units of a stream's group.")] = 2,
    output: Annotated[Literal["text", "json"], typer.Option("--format", help="On stdout.")] = "text",
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write JSON here.")] = None,
    plot_file: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Also draw a plot here.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Run benchmarks."""
    names = workload or ["chain_band", "cyclic_band"]
    for name in names:
        if name not in WORKLOADS:
            raise InvalidSettingError("WORKLOAD", name, f"there are {', '.join(WORKLOADS)}")
    for option, given, known in (("--scheme", scheme, SCHEMES), ("--against", against, OTHERS)):
        for one in given or []:
            if one not in known:
                raise InvalidSettingError(option, one, f"there are {', '.join(known)}")
    err = Console(stderr=True, quiet=quiet)
    documents = []
    for name in names:
        found = _measure(name, rows, batches, scheme, against or [], runs, seed, units, err)
        documents.append(as_document(name, WORKLOADS[name].about, rows, batches, found))
        if output == "text":
            medians = {engine: median(outcomes) for engine, outcomes in found.items()}
            title = f"{name}: {len(WORKLOADS[name].streams)} x {rows:,} rows, {batches} micro-batches, {runs} runs"
            Console(width=None if sys.stdout.isatty() else 140).print(as_table(title, medians))
    if output == "json":
        typer.echo(json.dumps(documents))
    if json_file is not None:
        write_json(json_file, documents)
    if plot_file is not None:
        plot(plot_file, documents)


def _measure(
    name: str,
    rows: int,
    batches: int,
    schemes: list[str] | None,
    against: list[Any],
    runs: int,
    seed: int,
    units: int,
    err: Console,
) -> dict[str, list[Outcome]]:
    """Run every engine ``runs`` times, in turns, over the same files."""
    from pyspark.sql import SparkSession

    from ..config import configure
    from ..quiet import quiet_jvm, quiet_python
    from ..session import UNITS

    chosen = WORKLOADS[name]
    engines = [*(schemes or chosen.schemes), *against]
    found: dict[str, list[Outcome]] = {engine: [] for engine in engines}
    folder = Path(tempfile.mkdtemp(prefix="trijoin-bench-"))
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    builder = SparkSession.builder.appName(f"trijoin-sql bench {name}").master(f"local[{units},4]")
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.memory", "4g").config("spark.sql.shuffle.partitions", str(units))
    try:
        with quiet_python(), quiet_jvm(), Progress(*columns, console=err, disable=not err.is_terminal) as progress:
            task = progress.add_task(f"{name}: data", total=len(engines) * runs)
            write_files(chosen, folder, rows, batches, seed)
            spark = configure(builder).getOrCreate()
            spark.sparkContext.setLogLevel("OFF")
            spark.conf.set(UNITS, str(units))
            for _ in range(runs):
                for engine in engines:
                    progress.update(task, description=f"{name}: {engine}")
                    found[engine].append(_run(spark, engine, name, folder, rows))
                    progress.advance(task)
            spark.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _run(spark: Any, engine: str, name: str, folder: Path, rows: int) -> Outcome:
    workload = WORKLOADS[name]
    if engine == "spark":
        return run_spark(spark, workload, folder, rows)
    if engine == "duckdb":
        return run_duckdb(workload, folder, rows)
    return run_scheme(spark, workload, folder, rows, engine)
