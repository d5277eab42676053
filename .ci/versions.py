"""The tests that matter on the lowest and on the highest versions of what we depend on, and the README's table of them.

``python .ci/versions.py`` makes an environment for each set of versions, runs the tests of .ci/versions.txt in it and
writes what ran between the marks ``<!-- versions -->`` and ``<!-- /versions -->`` of README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

#: The tests, one a line.
TESTS = [line for line in Path(__file__).with_suffix(".txt").read_text().splitlines() if not line.startswith("#")]

#: What these tests need beside our own dependencies.
RUNNER = ("pytest", "pytest-xdist", "hypothesis")
PROCESSES = ("-n", "2", "--max-worker-restart=0", "--dist", "loadfile", "--no-loadscope-reorder")

#: What the lowest set alone needs: Apache Sedona has a build for Spark 4.0 and none for later ones that we know.
OF_LOWEST = ("apache-sedona==1.9.1",)

#: What the table shows, with the names that it has there.
SHOWN = {"pyspark": "PySpark", "sqlglot": "sqlglot", "numpy": "NumPy", "pyarrow": "PyArrow", "pandas": "pandas"}

#: PySpark 4.0 and 4.1 leave sockets open where it collects rows.
WARNINGS = ("-W", "ignore:unclosed <socket:ResourceWarning")

_MARKED = re.compile(r"(<!-- versions -->\n).*?(<!-- /versions -->)", re.DOTALL)


def lowest(requirements: list[str]) -> list[str]:
    """Return the lower end of each range, exactly."""
    ends = {}
    for text in requirements:
        found = re.match(r"([\w.-]+)[^=<>]*(?:>=|==)([\w.]+)", text)
        if found is None:
            raise SystemExit(f"{text} in pyproject.toml has no lowest version")
        ends[found[1]] = found[2]
    return [f"{name}=={version}" for name, version in ends.items()]


def make_environment(folder: Path, python: str, packages: list[str], pinned: list[str]) -> Path:
    """Return the interpreter of an environment with these packages, those that run tests, and the checkout itself."""
    interpreter = folder / "bin" / "python"
    subprocess.run([python, "-m", "venv", "--clear", "--without-pip", folder], check=True)  # some have no ensurepip
    install = [*pip(interpreter), "install", "--quiet"]
    subprocess.run([*install, *packages, *pinned], check=True)
    subprocess.run([*install, "--no-deps", "--editable", ROOT], check=True)
    return interpreter


def pip(interpreter: Path) -> list[str | Path]:
    """Return the command of this interpreter's own pip for another one's packages."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", interpreter]


def versions_in(interpreter: Path) -> dict[str, str]:
    """Return the version of Python and of all packages of an environment."""
    command = [*pip(interpreter), "list", "--format", "json"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    asked = [interpreter, "-c", "import platform; print(platform.python_version())"]
    python = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    return {"python": python} | {one["name"].lower(): one["version"] for one in json.loads(listed.stdout)}


def java_of(environment: Mapping[str, str]) -> str:
    """Return the version of the Java that Spark finds."""
    home = environment.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    said = subprocess.run([java, "-version"], check=True, capture_output=True, text=True, env=environment).stderr
    return re.search(r'version "([^"]+)"', said)[1]  # type: ignore[index]


def table(ran: Mapping[str, Mapping[str, str]], ranges: Mapping[str, str]) -> str:
    """Return the table of versions, in Markdown."""
    lines = [
        "| | works with | " + " | ".join(f"tested: {name}" for name in ran) + " |",
        "|---|---|" + "---|" * len(ran),
    ]
    for package, name in {"python": "Python", "java": "Java", **SHOWN}.items():
        found = " | ".join(versions[package] for versions in ran.values())
        lines.append(f"| {name} | {ranges[package]} | {found} |")
    return "\n".join(lines) + "\n"


def write(readme: Path, text: str) -> None:
    """Put the table between its marks, if the file has them."""
    old = readme.read_text(encoding="utf-8")
    new = _MARKED.sub(lambda found: found[1] + text + found[2], old)
    if new != old:
        readme.write_text(new, encoding="utf-8")


def main() -> int:
    """Return 0 if all sets pass."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--lowest-python", default=sys.executable, help="interpreter of the lowest set")
    parser.add_argument("--highest-python", default=sys.executable, help="interpreter of the highest set")
    parser.add_argument("--highest-java", help="JAVA_HOME of the highest set; both have the same one without")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "versions", help="where environments are made")
    parser.add_argument("--junit", type=Path, help="folder for reports of what ran, to be read by .ci/skips.py")
    parser.add_argument("--only", choices=("lowest", "highest"), help="one set; README.md stays as it is")
    options = parser.parse_args()
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = declared["project"]
    named = [one for one in declared["dependency-groups"]["dev"] if isinstance(one, str)]  # other groups are dicts
    runner = [one for one in named if re.match(r"[\w-]+", one)[0] in RUNNER]  # type: ignore[index]
    extra = project["optional-dependencies"]["demo"]
    sets = {
        "lowest": (options.lowest_python, lowest(project["dependencies"])),
        "highest": (options.highest_python, project["dependencies"]),
    }
    ran, failed = {}, []
    for name, (python, packages) in sets.items():
        if options.only not in (None, name):
            continue
        beside = [*runner, *extra, *(OF_LOWEST if name == "lowest" else ())]
        interpreter = make_environment(options.folder / name, python, packages, beside)
        environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
        if name == "highest" and options.highest_java:
            environment["JAVA_HOME"] = options.highest_java
        ran[name] = versions_in(interpreter) | {"java": java_of(environment)}
        print(f"{name}:", ", ".join(f"{one} {ran[name][one]}" for one in ("python", "java", *SHOWN)), flush=True)
        report = [f"--junit-xml={options.junit / f'{name}.xml'}"] if options.junit else []
        command = [interpreter, "-m", "pytest", "-q", *PROCESSES, *WARNINGS, *report, *TESTS]
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed on the {' and the '.join(failed)} versions", file=sys.stderr)
        return 1
    if options.only is None:
        ranges = {"python": project["requires-python"], "java": "17, 21; 25 from PySpark 4.2 on"}
        for text in project["dependencies"]:
            package, bounds = re.match(r"([\w-]+)(.*)", text).groups()  # type: ignore[union-attr]
            ranges[package] = bounds
        text = table(ran, {one: re.sub(", *", ", ", bounds) for one, bounds in ranges.items()})
        write(ROOT / "README.md", text)
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
