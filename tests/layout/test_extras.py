"""What an extra installs is all that its part of the README and of docs/ needs.

Each extra is alone in an environment of its own, with the wheel: of the packages that are installed
here, those that the extra asks for, and what these ask for. They are linked, which takes a second,
where pip would fetch and unpack them. The commands are the installed ones.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path

import lakelog
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", re.M | re.S)


def packages(requirements: list[str]) -> set[str]:
    """The packages that pip would install for some requirements."""
    found: set[str] = set()
    todo = [(Requirement(each), frozenset({""})) for each in requirements]
    done = set()
    while todo:
        wanted, extras = todo.pop()
        if wanted.marker and not any(wanted.marker.evaluate({"extra": each}) for each in extras):
            continue
        name, own = canonicalize_name(wanted.name), frozenset({"", *wanted.extras})
        if (name, own) in done:
            continue
        done.add((name, own))
        if name == "lakelog":
            more = [
                *PROJECT["dependencies"],
                *(one for each in wanted.extras for one in EXTRAS[each]),
            ]
        else:
            found.add(name)
            more = distribution(name).requires or []
        todo += [(Requirement(each), own) for each in more]
    return found


class Environment:
    """One with an extra alone; `python` and `lakelog` run what is installed there."""

    def __init__(self, folder: Path, wheel: Path, extra: str) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        venv.create(folder / "venv", symlinks=True)
        [site] = (folder / "venv" / "lib").glob("*/site-packages")
        for name in packages(["lakelog" + f"[{extra}]" * bool(extra)]):
            link(name, site)
        pip = [sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--no-index", wheel], check=True, capture_output=True)

    def run(self, *argv: str | Path) -> str:
        known = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        known["PATH"] = f"{self.bin}{os.pathsep}{known['PATH']}"
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=known,
            capture_output=True,
            text=True,
            check=False,
            timeout=250,
        )
        assert done.returncode == 0, f"{argv}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def python(self, text: str, *argv: str) -> str:
        return self.run(self.bin / "python", "-c", text, *argv)

    def lakelog(self, *argv: str) -> str:
        return self.run(self.bin / "lakelog", *argv)

    def page(self, name: str, *sections: str) -> None:
        """Run the examples of a page: of what is before its first heading, and of some sections;
        all of them if none is named."""
        first, *rest = (ROOT / name).read_text().split("\n## ")
        chosen = [each for each in rest if not sections or each.startswith(sections)]
        assert len(chosen) >= len(sections)
        code = ""
        for kind, text in BLOCK.findall("\n".join([first, *chosen])):
            if kind == "python":
                code += text
                continue
            self.python(code)
            for line in text.splitlines():
                if line.startswith("lakelog "):
                    self.run("sh", "-c", line)
            code = ""
        self.python(code)


def link(name: str, site: Path) -> None:
    for file in distribution(name).files or ():
        if file.parts[0] == ".." or not Path(file.locate()).exists():
            continue  # a program, or a compiled file that was never made
        source, target = file.locate(), site / file
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            target.hardlink_to(source)
        except FileExistsError:
            continue  # of a folder that packages share
        except OSError:  # another file system
            shutil.copyfile(source, target)


@pytest.fixture
def installed(request, wheel, tmp_path) -> Environment:
    extra = request.node.name.removeprefix("test_")
    return Environment(tmp_path, wheel, "" if extra == "no_extra" else extra)


# --- Each extra -----------------------------------------------------------------------------------


def test_no_extra(installed):
    installed.page("docs/engines.md", "pyarrow")
    assert "hourly" in installed.lakelog("tables", "lake", "weather")


def test_duckdb(installed):
    installed.page("README.md", "Start")
    installed.page("docs/engines.md", "DuckDB")


def test_pandas(installed):
    installed.page("docs/engines.md", "pandas")


def test_polars(installed):
    installed.page("docs/engines.md", "Polars")


SPANS = """
import opentelemetry.trace, lakelog
catalog = lakelog.open_catalog("lake")
print(len(catalog.maintain(execute=True).rows))
"""


def test_otel(installed):
    """Without an SDK spans go nowhere, and nothing else is different."""
    installed.page("docs/engines.md", "pyarrow")
    assert int(installed.python(SPANS)) >= 5


STORE = """
import json, sys, lakelog, pyarrow as pa
catalog = lakelog.open_catalog(sys.argv[1], json.loads(sys.argv[2]))
with catalog.writer("w", "db") as writer, writer.transaction() as tx:
    tx.write("t", pa.table({"n": [1, 2]}))
print(catalog.snapshot("db").to_arrow("t")["n"].to_pylist())
"""


@pytest.mark.s3
def test_s3(installed, moto):
    url = f"s3://{moto.make_bucket()}/lake"
    assert installed.python(STORE, url, json.dumps(moto.storage_options)) == "[1, 2]\n"


# Servers that answer as the clouds do are in `tests/store`; here it is enough to get to one.
@pytest.mark.parametrize("extra", ["gcs", "azure"])
def test_clouds(extra, wheel, tmp_path):
    scheme, module = {"gcs": ("gs", "gcsfs"), "azure": ("az", "adlfs")}[extra]
    environment = Environment(tmp_path, wheel, extra)
    text = f"import {module}, lakelog; lakelog.open_catalog('{scheme}://lake/x', {{}})"
    environment.python(text)


SPARK = """
import lakelog.spark as spark
session = spark.session(master="local[1]")
done = spark.write(session.range(3), "lake", "db", "t", writer="w")
print(done.rows, spark.read(session, "lake", "db", "t").count())
"""


@pytest.mark.slow("starts Spark twice")
@pytest.mark.spark
def test_spark(installed):
    """With pandas, which Spark asks for, and which lakelog's commands else do without."""
    assert installed.python(SPARK) == "3 3\n"
    on_spark = ["--engine", "spark", "--spark", "spark.master=local[1]"]
    installed.lakelog("replicate", "lake", "copy", *on_spark)
    rows = [lakelog.open_catalog(str(installed.folder / each)) for each in ("lake", "copy")]
    first, second = (each.snapshot("db").to_arrow("t")["id"].to_pylist() for each in rows)
    assert sorted(first) == sorted(second) == [0, 1, 2]


NOTEBOOK = """
import nbformat, nbclient
text = "import lakelog.spark, duckdb, pandas, matplotlib.pyplot as plt; print('here')"
notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text)])
kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
notebook.metadata["kernelspec"] = kernel
nbclient.NotebookClient(notebook, timeout=200).execute()
print(notebook.cells[0].outputs[0].text, end="")
"""


def test_notebook(installed):
    assert "here\n" in installed.python(NOTEBOOK)


def test_all_are_together_in_all():
    names = EXTRAS.keys() - {"dev", "notebook"}
    rest = {name: packages([f"lakelog[{name}]"]) for name in names}
    together = rest.pop("all")
    assert together == set().union(*rest.values())


def test_each_extra_has_a_test():
    mine = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert EXTRAS.keys() - mine == {"all", "dev", "gcs", "azure"}
