"""``python -m trijoin_sql``."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
