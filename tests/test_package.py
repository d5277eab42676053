"""The house itself: what is packaged, who imports whom, and what an import does."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import networkx
import pytest

import trijoin_sql

ROOT = Path(__file__).parent.parent
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
FOLDERS = {"trijoin_sql": ROOT / "trijoin_sql"} | {
    f"trijoin_sql.{name}": ROOT / name for name in ("rewriter", "operators")
}
FOLDERS["trijoin_sql.cookbook"] = ROOT / "queries" / "cookbook"
MODULES = {
    ".".join((package, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__"): path
    for package, folder in FOLDERS.items()
    for path in sorted(folder.rglob("*.py"))
}

#: What the operators take from the rewriter, all of it without anything but the standard library.
FOR_OPERATORS = tuple(
    f"trijoin_sql.rewriter.plan.{name}"
    for name in ("nodes", "parts", "decision", "joins", "expr", "conjuncts", "grid", "comparison", "schemes", "trees")
)


def imports(module: str) -> Iterator[str]:
    """Yield the absolute name of every module that a module imports, wherever in the file it does so."""
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: -(node.level - 1) or None] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in MODULES)


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def test_every_folder_with_code_is_packaged() -> None:
    folders = {module if path.name == "__init__.py" else module.rpartition(".")[0] for module, path in MODULES.items()}
    assert sorted(SETUPTOOLS["packages"]) == sorted(folders)


def test_every_file_that_is_not_code_is_packaged() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "trijoin_sql", "rewriter", "operators"], cwd=ROOT, capture_output=True, text=True
    )
    if tracked.returncode:
        pytest.skip("not a git checkout")
    places = {folder: package for package, folder in SETUPTOOLS["package-dir"].items()}
    data = SETUPTOOLS["package-data"]
    for name in tracked.stdout.split():
        if not name.endswith((".py", ".md")):
            top, _, rest = name.partition("/")
            package, name_in = places[top], rest
            while f"{package}.{name_in.partition('/')[0]}" in SETUPTOOLS["packages"]:
                head, _, name_in = name_in.partition("/")
                package = f"{package}.{head}"
            assert any(fnmatch(name_in, pattern) for pattern in data.get(package, [])), f"{name} is not in package-data"


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_one_way(module: str) -> None:
    """``trijoin_sql -> operators -> rewriter.plan`` and two like it; everybody may raise our errors."""
    ours = {name for name in imports(module) if within(name, "trijoin_sql")} - {"trijoin_sql.errors"}
    if module == "trijoin_sql.errors":
        assert not ours
    elif within(module, "trijoin_sql.rewriter"):
        assert all(within(name, "trijoin_sql.rewriter") for name in ours)
    elif within(module, "trijoin_sql.operators"):
        assert all(within(name, "trijoin_sql.operators", *FOR_OPERATORS) for name in ours)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_nobody_imports_a_folder_by_its_bare_name(module: str) -> None:
    """``rewriter.plan`` and ``trijoin_sql.rewriter.plan.nodes`` would be two modules with two sets of classes."""
    assert not [name for name in imports(module) if within(name, "rewriter", "operators")]


def test_stages_see_no_syntax_tree_of_a_query() -> None:
    """They know a query by its plan: `rewriter.front_end` makes it, and puts it back."""
    rewriter = "trijoin_sql.rewriter"
    rooms = ("pipeline", "rules", "event_time", "choose", "predicates", "plan")
    front = tuple(
        f"{rewriter}.{name}" for name in ("names", "parse", "aggregates", "render.select", "render.from_clause")
    )
    for module in MODULES:
        if within(module, *(f"{rewriter}.{name}" for name in rooms)):
            assert not [name for name in imports(module) if within(name, *front)], module


@pytest.mark.parametrize(
    "module",
    [
        name
        for name in sorted(MODULES)
        if within(name, "trijoin_sql.rewriter", "trijoin_sql.operators.kernels", "trijoin_sql.operators.store.index")
    ],
)
def test_rewriter_kernels_and_index_know_no_spark(module: str) -> None:
    assert not [name for name in imports(module) if within(name, "pyspark", "py4j")]


def test_rooms_form_no_circle() -> None:
    """A room is a folder or a file of a package: what a reader opens below it does not lead back to it."""
    for package in FOLDERS:

        def room(module: str, of: str = package) -> str | None:
            inside = module.removeprefix(f"{of}.")
            return None if inside == module else inside.partition(".")[0]

        others = tuple(name for name in FOLDERS if name.startswith(f"{package}."))
        arrows = {
            (room(module), room(name))
            for module in MODULES
            for name in imports(module)
            if name in MODULES and not within(module, *others) and not within(name, *others)
        }
        graph = networkx.DiGraph((a, b) for a, b in arrows if a and b and a != b)
        assert networkx.is_directed_acyclic_graph(graph), f"{package}: {networkx.find_cycle(graph)}"


def test_workers_load_nothing_that_is_not_shipped() -> None:
    """`operators/compile` is the driver's, and so is the rewriter."""
    drivers = ("trijoin_sql.operators.compile", "trijoin_sql.rewriter")
    for module in MODULES:
        if within(module, "trijoin_sql.operators") and not within(module, *drivers):
            assert not [name for name in imports(module) if within(name, *drivers)], module


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT.parent, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_import_has_no_side_effects() -> None:
    assert not run(
        "import logging, os, sys, warnings\n"
        "before = set(sys.modules), dict(os.environ), list(logging.root.handlers), list(warnings.filters)\n"
        "import trijoin_sql\n"
        "assert before[1:] == (dict(os.environ), list(logging.root.handlers), list(warnings.filters))\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before[0]} - set(sys.stdlib_module_names)\n"
        "assert new <= {'trijoin_sql'} | {n for n in new if n.startswith('__editable__')}, new\n"
    )


def test_the_rewriter_loads_without_spark() -> None:
    names = [name for name in MODULES if within(name, "trijoin_sql.rewriter")]
    load = f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\n"
    assert not run(f"{load}assert 'pyspark' not in sys.modules")


def test_the_command_line_loads_what_measures_and_runs_only_when_it_is_asked_to() -> None:
    """`--help` and `explain` answer at once."""
    assert not run(
        "import sys\nimport trijoin_sql.cli\n"
        "heavy = {'pyspark', 'numpy', 'pyarrow', 'pandas', 'sqlglot', 'networkx'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )


def test_a_stage_says_what_state_it_has_before_it_loads_pandas() -> None:
    """Spark starts a Python process for each stage of a query that starts, to ask for that only."""
    assert not run(
        "import sys\n"
        "from pyspark import cloudpickle\n"
        "from trijoin_sql.operators.task.processor import JoinProcessor\n"
        "class Handle:\n"
        "    def getMapState(self, name, *types): assert name == 'trijoin'\n"
        "processor = cloudpickle.loads(cloudpickle.dumps(JoinProcessor(None)))\n"
        "processor.init(Handle())\n"
        "processor.close()\n"
        "heavy = {'numpy', 'pyarrow', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )


def test_public_names_are_there() -> None:
    missing = [name for name in trijoin_sql.__all__ if not hasattr(trijoin_sql, name)]
    assert not missing
    assert set(trijoin_sql.__all__) <= set(dir(trijoin_sql))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        trijoin_sql.nonsense  # noqa: B018
