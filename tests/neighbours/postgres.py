"""A PostgreSQL server on loopback, for the time of a test."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Seconds that a command may take.
PATIENCE = 90


def binaries() -> Path | None:
    """Return the folder of the newest server here, None if there is none; Debian does not put it on the PATH."""
    on_path = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = [*([Path(on_path).resolve()] if on_path else []), *debian]
    return found[-1].parent if found else None


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start a server of those binaries; yield how to connect to it, and stop it afterwards."""
    # The server refuses to run as root; Debian's package has made a user for it.
    root = os.geteuid() == 0
    user = pwd.getpwnam("postgres") if root else None
    with socket.socket() as one, tempfile.TemporaryDirectory(prefix="trijoin-postgres-") as home:
        one.bind(("127.0.0.1", 0))
        port = int(one.getsockname()[1])
        if user is not None:
            os.chown(home, user.pw_uid, user.pw_gid)

        def call(*command: str) -> None:
            subprocess.run(
                [str(folder / command[0]), *command[1:]],
                check=True,
                stdout=subprocess.DEVNULL,
                timeout=PATIENCE,
                cwd=home,
                user=None if user is None else user.pw_uid,
                group=None if user is None else user.pw_gid,
            )

        call("initdb", "-D", f"{home}/data", "-U", "postgres", "-A", "trust", "--no-sync")
        one.close()
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={home} -c fsync=off"
        call("pg_ctl", "-D", f"{home}/data", "-l", f"{home}/log", "-o", options, "-w", "start")
        try:
            yield f"host=127.0.0.1 port={port} user=postgres dbname=postgres"
        finally:
            call("pg_ctl", "-D", f"{home}/data", "-m", "immediate", "-w", "stop")
