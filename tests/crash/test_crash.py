"""The short set of the crash tests, with whole processes; ``make crash SEEDS=n`` runs as many as you like."""

from __future__ import annotations

from pathlib import Path

import pytest

from .harness import Moment
from .scenarios import FILES, Scenario


@pytest.mark.rare
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


@pytest.mark.rare
@pytest.mark.spark
@pytest.mark.slow
def test_late_rows_come_once_over_crashes(tmp_path: Path) -> None:
    """The driver dies between results and late rows, then behind both and before the commit; then a worker dies."""
    it = Scenario(7, tmp_path, case="semi_symmetric window", sink="late")
    with it.program() as program:
        it.kill_driver(program, Moment("before_late", 4))
        assert not (program.checkpoint / "commits" / "4").exists()
        assert (program.out / "_spark_metadata" / "4").exists()
        it.kill_driver(program, Moment("after_late", 5))
        assert not (program.checkpoint / "commits" / "5").exists()
        program.launch()
        assert program.wait_for(Moment("offset", 7))
        assert program.kill("worker", it.random)
        it.demand_exact(program, launched=True)
        outcome = program.finish()
        assert outcome is not None
        assert outcome["late"] == 3 * 5 * (FILES - 3)


@pytest.mark.spark
@pytest.mark.slow
def test_a_history_is_read_once_over_kills(tmp_path: Path) -> None:
    """The driver dies while a table is written, in the middle of the tables, and where only the streams go on."""
    it = Scenario(5, tmp_path, case="left join, histories", sink="foreach")
    slices = 5  # of the 250 rows of five files
    with it.program(**{"spark.trijoin.history.rows": "50"}) as program:
        it.kill_driver(program, Moment("history"))
        assert not (program.checkpoint / "offsets").exists()
        it.kill_driver(program, Moment("after_sink", 2))
        it.kill_driver(program, Moment("before_sink", slices))
        it.demand_exact(program)
    assert [one.count("killed") for one in it.story] == [0, 1, 1, 1, 0]
    assert len(list((program.checkpoint / "trijoin_history").glob("r_old_r__*/part-*"))) == slices
