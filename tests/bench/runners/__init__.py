"""Runners of other engines, each executed by the Python of that engine's own environment.

A runner is a script that imports nothing of ours; that of versions of ours, `trijoin_runner`, has its own protocol.
The one argument of the others is a JSON object: ``folder`` (the streams' Parquet files), ``scratch`` (a folder of its
own), ``streams``, ``columns`` (names and SQL types), ``sql``, ``joins`` (the same query as steps, for engines without
SQL) and ``parallelism``. They print ``{"ready": true}`` when everything is loaded and the measured run begins, and at
their end ``{"seconds": ..., "results": ...}``.
"""

from __future__ import annotations
