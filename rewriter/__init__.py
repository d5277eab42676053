"""The rewriter: SQL text to a plan with TriJoin, MultiJoin and BiJoin nodes. It does not import pyspark."""

from __future__ import annotations
