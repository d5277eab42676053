"""``python -m tests.bench``: its arguments and its help. The code that measures is loaded later."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal

import typer

from trijoin_sql.errors import InvalidSettingError

from .outcome import OTHERS

HELP = """Measure schemes, side by side in one run: throughput, latency, intermediates, bytes shuffled.

\b
workloads  chain_band, chain_float, cyclic_band, chain_dense, cyclic_dense, chain_window,
           cyclic_window, chain_equal, common_key, zipf_chain, zipf_key, pair_band,
           pair_window, left_window, pair_equal, pair_theta, pair_zipf, equal_window,
           features_2, features_4, features_8, features_left, features_inner, tested_left, tested_inner,
           q5_revenue, q7_pair, q7_volume, band_count, tpch_q2, tpch_q3, tpch_q5, star_four, star_many
           (none: chain_band and cyclic_band)
paper      the experiments of the papers, each by its name: 001-fig10; without a name they are listed
overhead   what enable adds to spark.sql for queries that are not ours
scale      our schemes in 1, 2, 4 ... units, predicted and counted (see below)
calibrate  the weights of the cost model on this machine, as settings
cliffs     skewed keys, one key, wide bands, <>, ten relations, tiny micro-batches, wide rows, long
           keys: what a tuple and a result cost, each beside a plain twin

Every engine sees the same rows. Our schemes and Spark get one file a micro-batch, and the first micro-batch, which \
starts Python and compiles code, does not count. Flink (streaming mode), Pathway and DuckDB (batch joins) read all \
files at once; their start does not count, and DuckDB's reading does not either. Each of these three is installed, \
when it is asked for, in an environment of its own below the user's cache folder. Several runs take turns; the table \
shows the run with the median throughput. Absolute figures are worth little on a shared machine: compare within a \
run.

What is measured is steady state: a JVM spends its first minutes compiling, at two to three times the cost of a \
trigger later on. Rounds that do not count go on until its compiler takes less than 15 % of a core, or --settle is \
over (then that is said).

--against COMMIT compares with an older version of ours (--against HEAD: what is not committed). It is \
installed as those engines are, with the packages that it pins; it and the present one each run in a process of their \
own, in turns. Its ratios are to the same scheme of the present one. --latency is not measured then.

Processor time (user and system, of the JVM, of Python's workers and of the driver's Python apart) is told beside the \
clock's, on which everything else on the machine counts.

MB state is what a query of ours keeps in Spark's state store, compressed. MB memory is the most that an engine's \
processes hold of their own, mapped files apart: of ours the Python workers, for the JVM is the one of all schemes; of \
Flink, Pathway and DuckDB all.

Latency is measured apart, since it says nothing at full load: rows arrive at one rate for all, and each result is \
timed from the arrival of its last tuple to the end of the micro-batch that emits it (a sample of them where a tuple \
has several). A tuple finds as many partners, on average, as where throughput is measured. Where nothing expires, what \
a tuple costs grows with the state; chain_window and cyclic_window have a sliding window of half the rows, and stay as \
they are for as long as rows come.

scale WORKLOAD... counts rows sent, rows kept, comparisons and results by tuple in each scheme and number of units up \
to --most, without Spark, beside what EXPLAIN's cost model predicts; and what the busiest unit has to the mean. Beyond \
64 units rows are only routed. With --master (local[2], local-cluster[2,1,1024]) the same rows run on that Spark too.

Exit codes: 0 done, 1 an engine failed, or two found different numbers of results, 2 wrong usage.

\b
python -m tests.bench                                    # our schemes, minutes
python -m tests.bench paper 001-fig10                    # one of the papers' experiments, two minutes
python -m tests.bench zipf_key --scheme biclique@hash --scheme biclique@contrand:2 --units 4
python -m tests.bench tpch_q5 --scheme matrix --scheme 'operator_tree((c, o), l, s)' --units 8 --cores 2
python -m tests.bench chain_band --against duckdb --rows 20000
python -m tests.bench chain_band --tables --scheme matrix --against spark --against duckdb
python -m tests.bench chain_band --against 5c57313 --idle --cold
python -m tests.bench scale chain_band pair_band --most 1024 --plot scale.svg
"""


def _workloads() -> list[str]:
    from .measure import OWN
    from .paper_experiments import EXPERIMENTS
    from .paper_report import NAME
    from .workloads import WORKLOADS

    return [*WORKLOADS, *OWN, NAME, *EXPERIMENTS, "scale", "calibrate"]


def bench(
    context: typer.Context,
    workload: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORKLOAD",
            help="See above; as many as wanted.",
            show_default=False,
            autocompletion=_workloads,
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Rows of each stream.", show_default="100,000; 2,000 for scale")
    ] = None,
    batches: Annotated[int, typer.Option(min=2, help="Micro-batches.")] = 6,
    scheme: Annotated[
        list[str] | None,
        typer.Option(
            help="SCHEME, SCHEME/pair, SCHEME@ROUTING:SUBGROUPS or SCHEME*UNITS; as often as needed.",
            show_default="all that fit",
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join((*OTHERS, "COMMIT")),
            help="Another engine on the same data, or a commit of ours.",
            show_default=False,
            autocompletion=lambda: list(OTHERS),
        ),
    ] = None,
    limit: Annotated[
        float,
        typer.Option(min=1, help="Seconds for a run of another engine, or commit; then its rate is an upper bound."),
    ] = 600,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each engine.")] = 3,
    warm_up: Annotated[
        int, typer.Option(min=0, help="Runs before, of our schemes and Spark, that do not count, at least; 0 for none.")
    ] = 1,
    settle: Annotated[
        float, typer.Option(min=0, help="Seconds at most for more of them, of each kind, until the JVM has compiled.")
    ] = 300,
    latency: Annotated[float, typer.Option(min=0, help="Also measure latency, for that many seconds each.")] = 0,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            min=1,
            help="Tuples/s for --latency; as often as needed.",
            show_default="half of the slowest scheme's throughput",
        ),
    ] = None,
    idle: Annotated[bool, typer.Option("--idle", help="Also time triggers with ten rows of each stream.")] = False,
    cold: Annotated[
        bool, typer.Option("--cold", help="Also time new processes, from their start to the end of the query.")
    ] = False,
    tables: Annotated[
        bool, typer.Option("--tables", help="Join tables, in one query, instead of streams; --limit is Spark's, too.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of the data.")] = 1,
    units: Annotated[int, typer.Option(min=1, help="Units of a stream's group; for scale only that many.")] = 2,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores and partitions.", show_default="as many as units")
    ] = None,
    window: Annotated[
        int | None, typer.Option(min=1, help="Seconds of a workload's window; the rows take 120.", show_default="60")
    ] = None,
    trigger: Annotated[
        float, typer.Option(min=0, help="Seconds from a micro-batch to the next, for --latency; 0 for no pause.")
    ] = 0,
    most: Annotated[int, typer.Option(min=1, help="The most units, for scale.")] = 64,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="For scale: also run on this Spark; for calibrate: on it.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Literal["text", "json", "markdown"], typer.Option("--format", help="On stdout; markdown of scale alone.")
    ] = "text",
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write JSON here.")] = None,
    plot_file: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Also draw a plot here.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Run benchmarks; see `HELP`."""
    from . import paper, paper_report
    from .measure import Options, measure

    signal.signal(signal.SIGTERM, _terminated)
    if workload and workload[0] == paper_report.NAME:
        given = {name for name in context.params if str(context.get_parameter_source(name)).endswith(".COMMANDLINE")}
        asked = paper.Asked(
            tuple(workload[1:]),
            rows=rows if "rows" in given else None,
            batches=batches if "batches" in given else None,
            runs=runs if "runs" in given else None,
            settle=settle if "settle" in given else 0,
            seconds=latency if "latency" in given else None,
            cores=cores or 2,
            seed=seed,
        )
        if not paper.run(asked, output=output, json_file=json_file, plot_file=plot_file, quiet=quiet):
            raise typer.Exit(1)
        return
    if workload == ["calibrate"]:
        from .scale import measure_weights

        measure_weights(master or "local[2]", output=output, quiet=quiet)
        return
    if workload and workload[0] == "scale":
        from .scale import doublings, measure_scale

        only = str(context.get_parameter_source("units")).endswith(".COMMANDLINE")
        measure_scale(
            workload[1:],
            scheme or (),
            rows,
            [units] if only else doublings(most),
            seed,
            master=master,
            output=output,
            json_file=json_file,
            plot_file=plot_file,
            quiet=quiet,
        )
        return
    if output == "markdown":
        raise InvalidSettingError("--format", output, "it is a form of scale alone")
    options = Options(
        workload or ["chain_band", "cyclic_band"],
        rows or 100_000,
        batches,
        tuple(scheme or ()),
        tuple(against or ()),
        runs,
        warm_up,
        settle,
        seed,
        units,
        limit,
        latency,
        tuple(rate or ()),
        idle,
        cold,
        tables,
        cores,
        window,
        trigger,
    )
    if not measure(options, output=output, json_file=json_file, plot_file=plot_file, quiet=quiet):
        raise typer.Exit(1)


def _terminated(_number: int, _frame: FrameType | None) -> None:
    """Exit cleanly: stop running engines and remove temporary folders."""
    raise SystemExit(128 + signal.SIGTERM)
