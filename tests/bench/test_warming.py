"""What is measured is steady state: rounds that do not count go on until the JVM's compiler has settled."""

from __future__ import annotations

from trijoin_sql.bench.measure import Measured
from trijoin_sql.bench.warming import Warming


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
    assert (rounds, warming.has_settled) == (4, False)
    (said,) = Measured({}, compiling={"idle": warming.share, "latency": 0.1, "throughput": None}).unsettled()
    assert said.startswith("idle: the JVM's compiler still took 90% of a core")


def test_so_many_rounds_as_asked_for_run_in_any_case() -> None:
    assert Machine([0.0]).warmed(300, 3)[0] == 3
    assert Machine([0.9]).warmed(0, 2)[0] == 2
    assert Machine([0.9]).warmed(0, 0)[0] == 0
