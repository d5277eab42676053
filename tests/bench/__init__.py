"""Benchmarks: stated data, stated queries, several schemes and engines side by side in one run.

`workloads` says what is joined; `engines` runs it as streams in Spark (our schemes, Spark's own cascade), as fast as
it goes, and `live` at a fixed rate, for latencies; `outside` runs it in other engines, and in older versions of ours,
through `runners`. `outcome` is one run, `report` shows the results, `bench_command` is the command line.
"""

from __future__ import annotations
