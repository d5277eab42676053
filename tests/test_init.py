"""``trijoin-sql init``: every job of the cookbook can be taken out of it, with its own data, and runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trijoin_sql.cli import app
from trijoin_sql.init import jobs
from trijoin_sql.jobs.check import check_job
from trijoin_sql.jobs.job_text import Script
from trijoin_sql.jobs.parse_statements import parse_job

COOKBOOK = Path(__file__).parents[1] / "queries" / "cookbook"


def init(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["init", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["init", *arguments])
    assert result.exit_code == 2
    return " ".join(result.output.replace("│", " ").split())


def data(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*.*") if path.suffix in (".json", ".csv"))
    return {f"{path.parent.name}/{path.name}": path.read_text() for path in found}


@pytest.fixture(scope="module")
def cookbooks_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """All streams and tables, as the cookbook's own generator writes them."""
    folder = tmp_path_factory.mktemp("all")
    (folder / "data.py").write_text((COOKBOOK / "data.py").read_text())
    subprocess.run([sys.executable, "data.py"], cwd=folder, check=True, capture_output=True)
    return data(folder)


def test_the_list_has_every_job_and_what_it_asks() -> None:
    lines = init("--list").splitlines()
    assert [line.split()[0] for line in lines] == sorted(path.stem for path in COOKBOOK.glob("*.sql"))
    assert all(line.endswith("?") and len(line) < 120 for line in lines)


@pytest.mark.parametrize("name", jobs())
def test_a_job_comes_with_its_own_streams(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cookbooks_data: dict[str, str]
) -> None:
    """No more than the job reads, and the cookbook's rows: two copies of a generator could differ."""
    monkeypatch.chdir(tmp_path)
    init(name)
    folder = tmp_path / name
    assert sorted(path.name for path in folder.iterdir()) == ["job.sql", "make_data.py"]
    subprocess.run([sys.executable, "-W", "error", "make_data.py"], cwd=folder, check=True, capture_output=True)
    monkeypatch.chdir(folder)
    job = parse_job(Script.read("job.sql"))
    assert check_job(job) == []  # its folders exist
    made = data(folder)
    tables = set(re.findall("'(data/[^']+[.]csv)'", job.script.text))
    assert {place.partition("/")[0] for place in made} - {"data"} == {stream.name.text for stream in job.streams}
    assert {place for place in made if place.startswith("data/")} == tables
    assert made == {place: text for place, text in cookbooks_data.items() if place in made}


def test_a_beginning_is_enough_and_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = init("fraud")
    assert "cd fraud\n" in said
    assert "fraud exists; nothing is overwritten" in refused("fraud")
    init("fraud", "an/other place")
    assert (tmp_path / "an" / "other place" / "job.sql").read_text() == (COOKBOOK / "fraud_bands.sql").read_text()
    (tmp_path / "file").touch()
    assert "file exists" in refused("geo", "file")


def test_a_name_that_is_none() -> None:
    assert "did you mean power_market?" in refused("power_markt")
    assert "there is no job p; is it power_market or price_arbitrage?" in refused("p")
    assert "trijoin-sql init --list" in refused()


def test_data_can_arrive_bit_by_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In files that follow each other in time, none of them lost at a border."""
    monkeypatch.chdir(tmp_path)
    init("geofence")
    done = subprocess.run([sys.executable, "make_data.py", "2"], cwd="geofence", check=True, capture_output=True)
    assert b"in 2 seconds" in done.stdout
    parts = [
        [json.loads(line)["ts"] for line in Path(f"geofence/data/positions/{number}.json").read_text().splitlines()]
        for number in (1, 2)
    ]
    assert sum(map(len, parts)) == 400
    assert max(parts[0]) < min(parts[1])


@pytest.mark.rare
@pytest.mark.spark
@pytest.mark.slow
def test_what_is_written_runs(tmp_path: Path) -> None:
    """The three commands that `init` names, as a user types them."""
    for command in (["-m", "trijoin_sql", "init", "fraud"],):
        subprocess.run([sys.executable, *command], cwd=tmp_path, check=True, capture_output=True)
    folder = tmp_path / "fraud"
    subprocess.run([sys.executable, "make_data.py"], cwd=folder, check=True, capture_output=True)
    run = [sys.executable, "-m", "trijoin_sql", "run", "job.sql", "--once", "--format", "json", "--watch", "page.html"]
    done = subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True)
    *rows, summary = map(json.loads, done.stdout.splitlines())
    assert summary["ended"] == "done"
    assert len(rows) == summary["queries"][0]["output_rows"] >= 3
    assert {"card", "here", "there"} < set(rows[0])
    page = (folder / "page.html").read_text()
    for told in ("data-over", f"<dt>rows out</dt><dd>{len(rows)}</dd>", "payments <b>", "watermark <b>"):
        assert told in page
