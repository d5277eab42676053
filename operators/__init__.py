"""The operator library: join nodes to streaming DataFrames (dispatch, stateful join, typed output)."""

from __future__ import annotations
