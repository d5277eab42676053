"""A Prometheus on loopback, for the time of a test: Debian's package, unpacked into a cache and installed nowhere."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from .maven_jars import CACHE, NotObtainableError

#: Seconds that a download, or the start, may take.
PATIENCE = 120


def panel_queries() -> list[str]:
    """Return the queries of the board's panels, over all queries and ten seconds."""
    board = json.loads((files("trijoin_sql.running") / "grafana.json").read_text("utf-8"))
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [text.replace("$query", ".*").replace("$__rate_interval", "10s") for text in found]


def binary(name: str = "prometheus") -> Path:
    """Return ``prometheus`` or ``promtool``: the installed one, else that of Debian's package.

    Raises
    ------
    NotObtainableError
        It is not installed, and there is no package of it here.
    """
    if (installed := shutil.which(name)) is not None:
        return Path(installed)
    found = CACHE / "prometheus" / "usr" / "bin" / name
    if not found.exists():
        _unpack(CACHE / "prometheus")
    return found


def _unpack(into: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NotObtainableError("it is not installed, and this is no Debian")
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent) as folder:
        said = _run(["apt-get", "download", "-qq", "prometheus"], folder)
        if said and os.geteuid() == 0:  # a new machine knows no packages
            _run(["apt-get", "update", "-qq"], folder)
            said = _run(["apt-get", "download", "-qq", "prometheus"], folder)
        packages = list(Path(folder).glob("prometheus_*.deb"))
        if not packages:
            raise NotObtainableError(said or "apt-get downloads nothing")
        _run(["dpkg-deb", "-x", str(packages[0]), f"{folder}/files"], folder)
        try:
            (Path(folder) / "files").rename(into)
        except OSError:  # another process was faster
            if not (into / "usr").exists():
                raise


def _run(command: list[str], folder: str) -> str:
    """Return why a command failed, nothing if it did not."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"{command[0]} takes more than {PATIENCE} s"
    lines = [line for line in done.stderr.splitlines() if not line.startswith("W:")]
    return (lines or [f"{command[0]} failed"])[-1] if done.returncode else ""


class Prometheus:
    """A running one; `url` is where it listens."""

    def __init__(self, url: str) -> None:
        self.url = url

    def query(self, text: str) -> list[dict[str, Any]]:
        """Return what a query gives now: series with their last ``value``."""
        with urlopen(f"{self.url}/api/v1/query?{urlencode({'query': text})}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


@contextmanager
def scraping(target: str, folder: Path) -> Iterator[Prometheus]:
    """Start a Prometheus that scrapes an address (host and port) each second; stop it afterwards."""
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: trijoin, static_configs: [{{targets: ['{target}']}}]}}]\n",
        "utf-8",
    )
    log = folder / "prometheus.txt"
    flags = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}", "--web.listen-address=127.0.0.1:0"]
    with log.open("w", encoding="utf-8") as out:
        process = subprocess.Popen([binary(), *flags], stdout=out, stderr=out, cwd=folder)
    try:
        yield Prometheus(f"http://127.0.0.1:{_port(process, log)}")
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the port that it took: any free one, which its log names."""
    ends = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < ends:
        told = log.read_text("utf-8")
        if "Server is ready" in told:
            return next(port for port in re.findall(r"address=127.0.0.1:(\d+)", told) if port != "0")
        time.sleep(0.1)
    raise AssertionError(f"Prometheus does not start: {log.read_text('utf-8')[-2000:]}")
