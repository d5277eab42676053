"""What is measured is steady state: rounds that do not count go on until the JVM's compiler has settled."""

from __future__ import annotations

from rich.progress import Progress

from .live import BEHIND, Live
from .measure import Measured, Options, _middles, _Rounds
from .warming import Warming


class Machine:
    """A clock, and a compiler that takes some share of each round."""

    def __init__(self, shares: list[float], took: float = 10.0) -> None:
        self.shares, self.took = shares, took
        self.now = self.compiled = 0.0

    def warmed(self, seconds: float, least: int) -> tuple[int, Warming]:
        warming, rounds = Warming(lambda: self.compiled, seconds, lambda: self.now), 0
        for number in warming.rounds(least):
            assert number == rounds
            self.now += self.took
            self.compiled += 1000 * self.took * self.shares[min(number, len(self.shares) - 1)]
            rounds += 1
        return rounds, warming


def test_rounds_go_on_until_the_compiler_has_settled() -> None:
    rounds, warming = Machine([0.9, 0.5, 0.2, 0.1, 0.1]).warmed(300, 1)
    assert (rounds, warming.has_settled) == (4, True)


def test_rounds_end_when_their_time_is_over_and_that_is_said() -> None:
    rounds, warming = Machine([0.9]).warmed(35, 1)
    assert (rounds, warming.has_settled) == (5, False)
    (said,) = Measured({}, compiling={"idle": warming.share, "latency": 0.1, "throughput": None}).unsettled()
    assert said.startswith("idle: the JVM's compiler still took 90% of a core")


def test_the_time_for_further_rounds_begins_behind_those_asked_for() -> None:
    """With many rows they alone may take longer than that."""
    assert Machine([0.9], took=400.0).warmed(300, 2)[0] == 3


def live_runs(problems: dict[str, str], warm_up: int = 2) -> tuple[dict[str, Live], list[tuple[str, bool]]]:
    """Return what three measured rounds of two engines come to, where some fail while they warm up; and all runs."""
    options = Options(["chain_band"], 1, 2, (), (), 3, warm_up, 0.0, 1, 2, 1.0, 1.0, (), idle=False, cold=False)
    runs: list[tuple[str, bool]] = []

    def run(engine: str, warming: bool) -> Live:
        runs.append((engine, warming))
        return Live(engine, ((1.0, 1),), problem=problems.get(engine) if warming else None)

    with Progress(disable=True) as progress:
        rounds = _Rounds("chain_band", options, progress, lambda: 0.0)
        return _middles(rounds, "latency", ["symmetric", "tree"], run, lambda live: live.mean), runs


def test_who_fails_while_it_warms_up_is_named_and_not_tried_again() -> None:
    """Rounds that do not count go on for minutes: a failure there must not vanish among them."""
    found, runs = live_runs({"tree": "out of memory"})
    assert found["tree"].problem == "out of memory"
    assert found["symmetric"].problem is None
    assert runs.count(("tree", True)) == 1
    assert runs.count(("symmetric", True)) == 2


def test_a_cold_jvm_may_be_too_slow() -> None:
    found, runs = live_runs({"tree": f"{BEHIND}: rows were left"})
    assert found["tree"].problem is None
    assert runs.count(("tree", True)) == 2
    assert [run for run in live_runs({}, warm_up=0)[1] if run[1]] == []


def test_so_many_rounds_as_asked_for_run_in_any_case() -> None:
    assert Machine([0.0]).warmed(300, 3)[0] == 3
    assert Machine([0.9]).warmed(0, 2)[0] == 2
    assert Machine([0.9]).warmed(0, 0)[0] == 0
