"""``python -m tests.bench``, from the root of the repository; the same as ``trijoin-sql bench`` there."""

from __future__ import annotations

import sys

from trijoin_sql.cli import app

if __name__ == "__main__":
    app(["bench", *sys.argv[1:]], prog_name="trijoin-sql")
