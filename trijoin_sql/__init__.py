"""TriJoin SQL: multi-way theta joins on Spark streams, in plain SQL."""

from __future__ import annotations
