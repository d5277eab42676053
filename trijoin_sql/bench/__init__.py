"""Benchmarks: stated data, stated queries, several schemes and engines side by side in one run.

`workloads` says what is joined, `engines` runs it (our schemes, Spark's own cascade, DuckDB), `report` shows what came
out, `command` is the command line.
"""

from __future__ import annotations
