"""Runs ``first_query.ipynb`` from its beginning and writes its outputs: a part of ``make docs-parts``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent / "first_query.ipynb"


def executed(folder: Path) -> Any:
    """Return the notebook with the outputs of a run.

    What is written to stderr is left out, and so is all that differs from run to run: times and numbers of executions.

    Parameters
    ----------
    folder
        Where it runs.
    """
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    client = NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    client.execute()
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    number = 0
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            number += 1
            cell.execution_count = number
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for output in cell.outputs:
                if "execution_count" in output:
                    output.execution_count = number
                output.pop("metadata", None)
                if output.output_type in ("execute_result", "display_data"):
                    output.metadata = {}
    return notebook


def texts(notebook: Any) -> list[str]:
    """Return what a notebook shows, output by output."""
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            shown = output.get("text") or data.get("text/html") or data.get("text/plain") or ""
            found.append(re.sub(r"\s+\n", "\n", "".join(shown)).strip())
    return found


def main() -> None:
    """Write the outputs."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        notebook = executed(Path(folder))
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    main()
