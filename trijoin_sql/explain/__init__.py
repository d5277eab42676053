"""Explanations of queries: text, JSON, Mermaid and one self-contained HTML page.

Everything here renders one JSON document; nothing here imports Spark or sqlglot.
"""

from __future__ import annotations

from .explanation import FORMS, Explanation

__all__ = ["FORMS", "Explanation"]
