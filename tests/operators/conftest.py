"""What tests of state share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from trijoin_sql.operators.state import warm

from .slots import another_worker


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A place of this test's own for warm copies, and a worker that knows nothing yet."""
    monkeypatch.setenv("TRIJOIN_LOCAL_DIR", str(tmp_path))
    another_worker()
    yield warm.root()
    another_worker()
