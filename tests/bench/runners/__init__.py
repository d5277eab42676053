"""Runners of other engines, each executed by the Python of that engine's own environment.

A runner is a script that imports nothing of ours. Its one argument is a JSON object: ``folder`` (the streams' Parquet
files), ``scratch`` (a folder of its own), ``streams``, ``columns`` (names and SQL types), ``sql``, ``joins`` (the same
query as steps, for engines without SQL) and ``parallelism``. It prints ``{"ready": true}`` when everything is loaded
and the measured run begins, and at its end ``{"seconds": ..., "results": ...}``.
"""

from __future__ import annotations
