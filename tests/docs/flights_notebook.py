"""The notebook of docs/, run in a fresh kernel: `python tests/docs/flights_notebook.py` runs it and
stores what it shows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).resolve().parents[2] / "docs"
NOTEBOOK = DOCS / "flights.ipynb"
LIMIT_S = 240


def load() -> Any:
    """As it is stored."""
    import nbformat

    return nbformat.read(NOTEBOOK, as_version=4)


def run(notebook: Any) -> Any:
    """Run each cell in a kernel of its own; the notebook with what it shows now.

    Raises:
        nbclient.exceptions.CellExecutionError: A cell failed; it says which.
    """
    from nbclient import NotebookClient

    client = NotebookClient(
        notebook, timeout=LIMIT_S, kernel_name="python3", record_timing=False,
        resources={"metadata": {"path": str(DOCS)}},
    )  # fmt: skip
    return client.execute()


def outputs(notebook: Any) -> Iterator[Any]:
    """All that its cells show."""
    for cell in notebook.cells:
        yield from cell.get("outputs", [])


def texts(notebook: Any) -> list[str]:
    """What each cell prints."""
    return [
        "".join(
            each.text
            for each in cell.get("outputs", [])
            if each.output_type == "stream" and each.name == "stdout"
        )
        for cell in notebook.cells
    ]


def pictures(notebook: Any) -> list[str]:
    """The plots, as base64 of PNG."""
    return [
        each.data["image/png"]
        for each in outputs(notebook)
        if each.output_type == "display_data" and "image/png" in each.data
    ]


def store(notebook: Any) -> None:
    """Keep it as it is now, without what differs from machine to machine, and without what Java
    says when it starts."""
    import nbformat

    for cell in notebook.cells:
        if "outputs" in cell:
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, NOTEBOOK)


if __name__ == "__main__":
    store(run(load()))
    print(*texts(load()), sep="\n", file=sys.stderr)
