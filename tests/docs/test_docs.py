"""Every example in README.md and docs/ runs, in the order of its page, in a folder of its own.

A `python` block is executed; a line that ends in `# -> text` must print that text or have that
repr. In an `sh` block each `lakelog` line is run (`# exit N` gives the code it must end with);
other lines are not ours. A `toml` block is written to the file that its first line names. Pages
with the word Spark in a block get a real session.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
from lakelog.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(python|sh|toml)\n(.*?)^```", re.M | re.S)
EXPECTED = re.compile(r"^(?P<code>.*?)\s*# -> (?P<text>.*)$")


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text())


RUNNABLE = [page for page in PAGES if blocks(page)]


def test_there_are_examples():
    assert {page.name for page in RUNNABLE} >= {"README.md", "reading.md", "writing.md"}


@pytest.mark.slow("a page about Spark starts a session, or waits for Spark's Python processes")
@pytest.mark.spark
@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    space: dict[str, object] = {"__name__": "example"}
    for kind, text in blocks(page):
        if kind == "python":
            run_python(text, space, page)
        elif kind == "toml":
            Path(text.partition("\n")[0].removeprefix("# ")).write_text(text)
        else:
            run_shell(text)


def run_python(text: str, space: dict[str, object], page: Path) -> None:
    wanted = {
        number: match["text"]
        for number, line in enumerate(text.splitlines(), 1)
        if (match := EXPECTED.match(line))
    }
    for node in ast.parse(text).body:
        source = ast.Module([node], [])
        printed = io.StringIO()
        value = None
        with contextlib.redirect_stdout(printed):
            if isinstance(node, ast.Expr):
                value = eval(compile(ast.Expression(node.value), page.name, "eval"), space)
            else:
                exec(compile(source, page.name, "exec"), space)
        expected = wanted.pop(node.end_lineno, None)
        if expected is not None:
            found = printed.getvalue().strip() or repr(value)
            assert found == expected, f"{page.name}: {ast.unparse(node)}"
    assert not wanted, f"{page.name}: expectations inside a statement are never checked: {wanted}"


def run_shell(text: str) -> None:
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] != ["lakelog"]:
            continue
        code = re.search(r"# exit (\d+)", line)
        with contextlib.redirect_stdout(io.StringIO()):
            assert main(words[1:]) == (int(code[1]) if code else 0), line
