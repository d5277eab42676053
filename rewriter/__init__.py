"""The rewriter: SQL text to a plan with TriJoin, MultiJoin and BiJoin nodes. Imports no pyspark."""

from __future__ import annotations
