"""The figures can still be had: no benchmark uses what the package no longer has."""

from __future__ import annotations

import ast
import os
import subprocess
import sys


def test_every_name_that_a_benchmark_imports_is_there(root):
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    names = sorted(path.stem for path in (root / "bench").glob("*.py"))
    path = os.pathsep.join(filter(None, [str(root / "bench"), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", code, *names], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_asked_for_help_none_measures_anything(root):
    for path in (root / "bench").glob("*.py"):
        if 'if __name__ == "__main__"' in path.read_text():
            calls = [
                n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)
            ]
            parsed = [f for f in calls if isinstance(f, ast.Attribute) and f.attr == "parse_args"]
            assert parsed, f"{path.name} knows no --help"
