"""The short set of the crash tests, with whole processes; ``make crash SEEDS=n`` runs as many as you like."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import Moment
from .scenarios import Scenario


@pytest.mark.spark
@pytest.mark.slow
def test_driver_killed_between_sink_and_commit(tmp_path: Path) -> None:
    """The batch is in the sink, its state is saved, and nobody has noted so; then a Python worker dies too."""
    it = Scenario(5, tmp_path, case="semi_symmetric window", sink="foreach")
    with it.program() as program:
        it.kill_driver(program, Moment("after_sink", 4))
        assert not (program.checkpoint / "commits" / "4").exists()
        program.launch()
        assert program.wait_for(Moment("offset", 6))
        assert program.kill("worker", it.random)
        it.demand_exact(program, launched=True)
