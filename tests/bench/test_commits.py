"""An older version of ours: its process is asked and stopped, what is no commit is a sentence, HEAD runs as we do."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from typer.testing import CliRunner

from . import outside
from .__main__ import app
from .outcome import Outcome, StoppedError
from .outside import Version
from .processes import Cpu
from .report import as_table, cpu_table
from .workloads import WORKLOADS, write_files

STARTED = "import sys, time; print('{\"jvm\": 1}', flush=True); print('[noise]')\n"


def version(text: str, limit: float = 30.0) -> Version:
    return Version([sys.executable, "-c", STARTED + text], limit)


def test_a_version_answers_request_by_request() -> None:
    """Its process stays: a JVM that has compiled is what is measured."""
    found = version('for line in sys.stdin: print(\'{"got": %s, "compiled": 5}\' % line.strip(), flush=True)')
    assert [found.ask({"n": number})["got"] for number in (1, 2)] == [{"n": 1}, {"n": 2}]
    assert found.compiled() == 5
    found.close()


def test_a_version_that_ends_says_why_and_starts_anew(tmp_path: Path) -> None:
    once = tmp_path / "once"
    found = version(f"""\
import pathlib
sys.stdin.readline()
if not pathlib.Path({str(once)!r}).exists():
    pathlib.Path({str(once)!r}).touch()
    sys.exit("java.lang.OutOfMemoryError")
print('{{"problem": "no such scheme", "compiled": 1}}', flush=True)
""")
    for said in ("java.lang.OutOfMemoryError", "no such scheme"):
        with pytest.raises(StoppedError, match=said) as stopped:
            found.ask({})
        assert stopped.value.limit is None
    found.close()


def test_a_version_that_takes_too_long_is_stopped() -> None:
    """Its rate is then below that of the limit, as with other engines."""
    with pytest.raises(StoppedError) as stopped:
        version("time.sleep(60)", limit=0.3).ask({})
    assert stopped.value.limit == 0.3


def test_a_commit_takes_a_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(outside, "ROOT", tmp_path)
    result = CliRunner().invoke(app, ["pair_band", "--against", "HEAD"])
    assert result.exit_code == 2
    assert f"a commit takes git, and a clone: {tmp_path} is none" in " ".join(result.output.split())


def test_a_commit_is_compared_with_the_same_scheme_of_the_present() -> None:
    """With the first engine all would be about the schemes."""
    runs = {"matrix": (4.0, 1.0), "matrix at 5c57313": (8.0, 3.0), "tree": (10.0, 5.0), "tree at 5c57313": (5.0, 6.0)}
    console = Console(width=140)
    with console.capture() as text:
        console.print(as_table("t", {name: Outcome(name, seconds, 1000) for name, (seconds, _) in runs.items()}))
        console.print(cpu_table("t", {name: [Cpu(cpu / 2, cpu / 2, 0.0)] for name, (_, cpu) in runs.items()}))
    lines = [line.replace("│", " ").split() for line in text.get().splitlines() if "5c57313" in line]
    assert [line[4] for line in lines] == ["0.50", "2.00", "3.00", "1.20"]


@pytest.mark.rare
@pytest.mark.slow
def test_head_runs_beside_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real thing: it is installed, and both find what NumPy counts."""
    if not (outside.ROOT / ".git").exists():
        pytest.skip("there is no clone")
    with tempfile.TemporaryDirectory() as home:  # pytest would keep it, and it is large
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        words = "pair_band --scheme biclique --against HEAD --rows 400 --batches 2 --runs 1 --warm-up 0 --cold"
        result = CliRunner().invoke(app, [*words.split(), "--format", "json"])
        assert result.exit_code == 0, result.output
        write_files(WORKLOADS["pair_band"], Path(home, "rows"), 400, 2, seed=1)
        r, s = (pq.read_table(Path(home, "rows", stream))["i"].to_numpy() for stream in "rs")
    (found,) = json.loads(result.stdout)
    assert found["engines"].keys() == found["cold"].keys() == {"biclique", "biclique at HEAD"}
    for engine, ((run,), (cold,)) in ((one, (found["engines"][one], found["cold"][one])) for one in found["cold"]):
        assert run["results"] == cold["results"] == (np.abs(r[:, None] - s[None, :]) < 2).sum(), engine
        assert 0 < run["cpu"]["workers"] < cold["cpu"]["workers"] + run["cpu"]["jvm"]
        assert cold["cpu"]["driver"] > 0
        assert cold["seconds"] > run["seconds"] > 0
