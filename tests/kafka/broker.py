"""A Kafka broker of one node (KRaft) on loopback, for the time of a test."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

#: Seconds that the broker may take to start.
PATIENCE = 90


@contextmanager
def broker(jars: list[Path], folder: Path) -> Iterator[str]:
    """Start a broker whose files are in a folder; yield its address, and stop it afterwards."""
    port, controller = _free_ports(2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": folder / "log",
        "num.partitions": 2,
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    properties, log = folder / "server.properties", folder / "broker.txt"
    properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), "utf-8")
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
    with log.open("wb") as out:
        java = _java(jars)
        formatting = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties)]
        subprocess.run(formatting, stdout=out, stderr=out, check=True, timeout=PATIENCE)
        process = subprocess.Popen([*java, "kafka.Kafka", str(properties)], stdout=out, stderr=out)
        try:
            _wait_until_open(port, process, log)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _java(jars: list[Path]) -> list[str]:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    assert java is not None
    return [java, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", ":".join(map(str, jars))]


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait_until_open(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        with closing(socket.socket()) as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the broker does not start: {log.read_text('utf-8', 'replace')[-2000:]}")
