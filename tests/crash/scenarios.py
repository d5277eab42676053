"""Seeded scenarios: everything about one follows from its seed. ``make crash SEEDS=n`` runs n of them.

Each ends when the query has seen all rows, and demands what Spark batch says of its sink: nothing lost, nothing twice.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from .harness import INSIDE, POINTS, Moment, Program
from .workload import ABOVE, CASES, HISTORIES, OUTER, write_streams

FILES, ROWS = 11, 50

#: Snapshots and clean-up of old state come within the few seconds of a run, not after a minute.
BUSY = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "3",
    "spark.sql.streaming.minBatchesToRetain": "3",
}
CLUSTER = "local-cluster[2,1,1024]"
#: A frozen executor is noticed within seconds, and its tasks run elsewhere while it is still one of the cluster.
IMPATIENT = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.2",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.executor.heartbeatInterval": "1s",
    "spark.network.timeout": "8s",
    "spark.network.timeoutInterval": "1s",
}


class InexactError(AssertionError):
    """A scenario did not end as it must."""


class Scenario:
    """One seed's scenario.

    Parameters
    ----------
    seed
        Decides everything.
    home
        An empty folder.
    case, sink
        Instead of the seed's choice.
    """

    def __init__(self, seed: int, home: Path, *, case: str | None = None, sink: str | None = None) -> None:
        self.seed, self.random = seed, Random(seed)
        self.home = home
        cases = [*CASES, *ABOVE, *OUTER]
        self.case = case or cases[(seed + seed // len(KINDS)) % len(cases)]  # every kind sees every case
        self.sink = sink or self.random.choice(("files", "foreach"))
        self.story: list[str] = [f"{self.case}, {self.sink}"]
        write_streams(home / "in", seed, range(FILES), ROWS, late=5 if self.sink == "late" else 0)

    def program(self, master: str = "local[2,4]", **conf: str) -> Program:
        """Return the program with the case and sink of this scenario."""
        return Program(self.home, self.case, self.sink, master, {**BUSY, **conf})

    def point(self) -> Moment:
        """Choose a point that this sink has."""
        other = ("sink_file", "sink_log") if self.sink == "foreach" else INSIDE
        point = self.random.choice([point for point in POINTS if point not in other])
        return Moment(point, self.random.randrange(1, FILES - 2))

    def kill_driver(self, program: Program, moment: Moment, units: int | None = None) -> None:
        """Start the program, perhaps with another number of units, and kill its driver at a moment."""
        if moment.point in INSIDE:
            program.launch(moment, units)
            program.finish()
        else:
            program.launch(units=units)
            if program.wait_for(moment):
                time.sleep(self.random.choice((0, 0, 0.01, 0.05)))
                program.kill("driver", self.random)
        died = program.process is not None and program.process.returncode == -signal.SIGKILL
        self.story.append(f"driver {'killed' if died else 'not reached'} at {moment}")
        if not died and program.finish() is None:
            raise InexactError(f"the query failed by itself: {program.error()[-2000:]}")

    def demand_exact(self, program: Program, *, launched: bool = False, units: int | None = None) -> None:
        """Run to the end and compare."""
        if not launched:
            program.launch(units=units)
        outcome = program.finish()
        if outcome is None:
            raise InexactError(f"the query failed: {program.error()[-3000:]}")
        self.story.append(f"{outcome['wanted']} rows, {outcome['batches']} batches, {program.starts} starts")
        if outcome["lost"] or outcome["twice"] or not outcome["wanted"]:
            raise InexactError(f"{outcome['lost']} rows lost, {outcome['twice']} too many of {outcome['wanted']}")


def driver_at_points(it: Scenario) -> None:
    """Kill the driver at chosen points, sometimes twice at the same one."""
    with it.program() as program:
        moment = it.point()
        for _ in range(it.random.choice((1, 1, 2))):
            it.kill_driver(program, moment)
        it.demand_exact(program)


def driver_at_random(it: Scenario) -> None:
    """Kill the driver at random moments."""
    with it.program() as program:
        for _ in range(it.random.choice((1, 2))):
            it.kill_driver(program, Moment("time", seconds=it.random.uniform(0.5, 20)))
        it.demand_exact(program)


def workers(it: Scenario) -> None:
    """Kill up to three Python workers, or their daemon: fewer than a task has attempts, so the query goes on."""
    with it.program() as program:
        program.launch()
        _kill_some(it, program, it.random.choice((["worker"] * 3, ["worker", "daemon"], ["worker"])))
        it.demand_exact(program, launched=True)


def executors(it: Scenario) -> None:
    """Kill an executor of two, and a Python worker."""
    with it.program(CLUSTER) as program:
        program.launch()
        _kill_some(it, program, it.random.choice((["executor"], ["worker", "executor"], ["executor", "executor"])))
        it.demand_exact(program, launched=True)


def _kill_some(it: Scenario, program: Program, kinds: list[str]) -> None:
    batches = sorted(it.random.sample(range(1, FILES - 1), len(kinds)))
    points = ("offset", "offset", "commit", "state")
    hits = 0
    for kind, batch in zip(kinds, batches, strict=True):
        moment = Moment(it.random.choice(points), batch)
        if not program.wait_for(moment):
            break
        time.sleep(it.random.uniform(0, 0.3))
        hit = program.kill(kind, it.random)
        hits += hit is not None
        it.story.append(f"{kind} {'killed' if hit else 'not there'} at {moment}")
    if not hits:
        raise InexactError(f"nothing was killed; {program.error()[-2000:]}")


def zombies(it: Scenario) -> None:
    """Freeze an executor at work; its tasks run elsewhere; then it wakes up and writes what it had in hand."""
    with it.program(CLUSTER, **IMPATIENT) as program:
        program.launch()
        moment = Moment("offset", it.random.randrange(2, FILES - 3))
        if program.wait_for(moment):
            time.sleep(it.random.uniform(0, 0.5))
            frozen = program.kill("executor", it.random, signal.SIGSTOP)
            asleep = it.random.uniform(2, 12)
            program.wait_for(Moment("commit", moment.batch + it.random.choice((0, 1))), timeout=300)
            if frozen is not None and frozen in program.processes("executor"):
                program_signal(frozen, signal.SIGCONT)
            it.story.append(f"executor frozen at {moment}, awake once its batch was done without it ({asleep:.0f})")
        it.demand_exact(program, launched=True)


def program_signal(pid: int, how: signal.Signals) -> None:
    """Send a signal to a process that may be gone."""
    import os

    try:
        os.kill(pid, how)
    except ProcessLookupError:
        return


def full_disk(it: Scenario) -> None:
    """Run into a full disk: the query fails and says so, or does without; with room again it goes on."""
    place, size = it.random.choice((("checkpoint", "500k"), ("checkpoint", "900k"), ("warm", "300k"), ("local", "3m")))
    with it.program() as program:
        if not program.small_disk(place, size):
            it.story.append("small file systems cannot be mounted here: skipped")
            return
        program.launch()
        outcome = program.finish()
        it.story.append(f"{place} of {size}: {'went on' if outcome else 'failed'}")
        if outcome is None:
            if place == "warm":
                raise InexactError(f"a full disk for the warm copy must not fail the query: {program.error()[-2000:]}")
            if "No space left" not in program.error():
                raise InexactError(f"the error does not tell of the disk: {program.error()[-3000:]}")
        program.grow_disk()
        it.demand_exact(program)


def truncated_state(it: Scenario) -> None:
    """Cut a file of the checkpoint: an error or the right rows, never wrong ones; with the file back it goes on."""
    with it.program() as program:
        moment = Moment(it.random.choice(("commit", "state")), it.random.randrange(3, FILES - 3))
        it.kill_driver(program, moment)
        files = [path for path in program.checkpoint.rglob("*") if path.is_file() and not path.name.startswith(".")]
        newest = max(int(path.name) for path in (program.checkpoint / "commits").glob("[0-9]*"))
        state = [p for p in files if p.suffix in (".changelog", ".zip", ".sst") and p.stat().st_size]
        needed = [p for p in state if p.name.startswith(f"{newest + 1}_") or p.suffix != ".changelog"]
        victim = it.random.choice(sorted(it.random.choice((needed or state, state, files))))
        whole = victim.read_bytes()
        victim.write_bytes(whole[: it.random.choice((0, len(whole) // 2, max(len(whole) - 1, 0)))])
        checksum = victim.with_name(f".{victim.name}.crc")
        if it.random.random() < 0.5 and checksum.exists():  # some file systems keep none
            checksum.unlink()
        it.story.append(f"cut {victim.relative_to(program.checkpoint)} from {len(whole)} to {victim.stat().st_size}")
        program.launch()
        outcome = program.finish()
        if outcome is None:
            said = [line for line in program.error().splitlines() if line.strip()]
            it.story.append(f"refused: {_gist(said)}")
            victim.write_bytes(whole)
            checksum.unlink(missing_ok=True)
            it.demand_exact(program)
        elif outcome["lost"] or outcome["twice"]:
            raise InexactError(f"wrong rows from a cut file: {outcome}")


def _gist(lines: list[str]) -> str:
    for line in reversed(lines):
        if "Exception" in line or "[" in line[:2] or "Error" in line:
            return line.strip()[:200]
    return lines[-1][:200] if lines else "nothing"


def truncated_warm(it: Scenario) -> None:
    """Cut files of the warm copy: it is made anew from the state store, and nobody notices."""
    with it.program() as program:
        it.kill_driver(program, Moment("commit", it.random.randrange(3, FILES - 3)))
        files = sorted(path for path in (it.home / "warm").rglob("*") if path.suffix in (".seg", ".view"))
        if not files:
            raise InexactError("there is no warm copy")
        for victim in it.random.sample(files, max(len(files) // 2, 1)):
            whole = victim.read_bytes()
            victim.write_bytes(whole[: it.random.randrange(len(whole))])
        it.story.append(f"half of {len(files)} warm files cut")
        it.demand_exact(program)


#: Their units may change. Without a window rows stay for ever, and units with them.
ELASTIC = (
    "symmetric window",
    "semi_symmetric window",
    "pair window",
    "symmetric",
    "semi_symmetric",
    "key window",
    "range window",
    "matrix window",
    "left join",
    "right join",
    "anti join in cells of a key",
    "the closest in a window",
    "left and anti on a row",
)


def other_units(it: Scenario) -> None:
    """Kill the driver and start it with other units, several times; a batch that was planned keeps its layout."""
    it.case = ELASTIC[it.seed // len(KINDS) % len(ELASTIC)]
    bounded = {**CASES, **OUTER}[it.case].watermarks
    counts = it.random.sample(range(1, 7), 4)
    if not bounded:
        counts.sort()
    batches = sorted(it.random.sample(range(1, FILES - 2), 3))
    it.story = [f"{it.case}, {it.sink}, units {counts}"]
    with it.program() as program:
        for batch, units in zip(batches, counts, strict=False):
            it.kill_driver(program, Moment(it.point().point, batch), units)
        it.demand_exact(program, units=counts[-1])
        layouts = [entry[1] for entry in program.layouts()]
        if layouts[-1] != counts[-1] or len(layouts) < 2:
            raise InexactError(f"units {counts} were asked for, the checkpoint has {layouts}")
        it.story.append(f"layouts {layouts}")


def late_rows(it: Scenario) -> None:
    """Kill the driver of a job with late rows around the writing of them, several times."""
    it.sink, it.case = "late", it.random.choice([name for name, case in CASES.items() if case.watermarks])
    it.story = [f"{it.case}, {it.sink}"]
    write_streams(it.home / "in", it.seed, range(FILES), ROWS, late=5)
    points = ("before_late", "after_late", "before_late", "after_late", "offset", "state", "sink_log", "commit")
    with it.program() as program:
        for batch in sorted(it.random.sample(range(3, FILES - 1), 3)):
            it.kill_driver(program, Moment(it.random.choice(points), batch))
        it.demand_exact(program)


def histories(it: Scenario) -> None:
    """Kill the driver while tables are written, in the middle of them and where they end, several times."""
    it.case = list(HISTORIES)[it.seed % len(HISTORIES)]
    it.story = [f"{it.case}, {it.sink}"]
    conf = {"spark.trijoin.history.rows": "60"}
    with it.program(**conf) as program:
        it.kill_driver(program, Moment("history"))
        for batch in sorted(it.random.sample(range(FILES - 2), 3)):
            it.kill_driver(program, Moment(it.point().point, batch))
        it.demand_exact(program)


KINDS: dict[str, Callable[[Scenario], None]] = {
    kind.__name__: kind
    for kind in (
        driver_at_points,
        workers,
        truncated_state,
        executors,
        driver_at_random,
        full_disk,
        truncated_warm,
        zombies,
        other_units,
        late_rows,
        histories,
    )
}


def run(seed: int, home: Path, kind: str | None = None, case: str | None = None) -> str:
    """Run a seed's scenario, or one of another kind or case; return its story.

    Raises
    ------
    InexactError
        Rows are lost or twice, or it failed where it must not.
    """
    names = list(KINDS)
    name = kind or names[seed % len(names)]
    scenario = Scenario(seed, home, case=case)
    try:
        KINDS[name](scenario)
    except (InexactError, TimeoutError) as error:
        raise InexactError(f"{name}: {'; '.join(scenario.story)}: {error}") from error
    return f"{name}: {'; '.join(scenario.story)}"


def main() -> int:
    """Run scenarios from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=len(KINDS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no scenario after that")
    parser.add_argument("--kind", choices=KINDS)
    parser.add_argument("--case", choices=[*CASES, *ABOVE, *OUTER, *HISTORIES])
    options = parser.parse_args()
    end = time.monotonic() + options.minutes * 60
    wrong = done = 0
    for seed in range(options.first, options.first + options.seeds):
        if time.monotonic() > end:
            break
        home = Path(tempfile.mkdtemp(prefix=f"trijoin-crash-{seed}-"))
        before = time.monotonic()
        done += 1
        try:
            story = run(seed, home, options.kind, options.case)
        except InexactError as error:
            wrong += 1
            print(f"seed {seed}: WRONG after {time.monotonic() - before:.0f} s, in {home}: {error}", flush=True)
            continue
        print(f"seed {seed}: exact after {time.monotonic() - before:.0f} s: {story}", flush=True)
        shutil.rmtree(home, ignore_errors=True)
    print(f"{done} seeds, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
