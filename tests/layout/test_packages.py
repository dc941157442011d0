"""What is installed is what is there."""

from __future__ import annotations

import re
import tomllib


def test_the_package_list_is_that_of_the_folders(root, modules):
    """`pyproject.toml` writes the packages out, since the root itself is one of them."""
    listed = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = [module.name for module in modules if module.path.name == "__init__.py"]
    assert sorted(listed) == sorted(folders)
    assert listed == sorted(listed)


def test_the_rooms_of_the_document_are_those_of_the_package(root, modules):
    """docs/developing.md has a line for each folder, or a word in that of the one above."""
    text = (root / "docs" / "developing.md").read_text(encoding="utf-8")
    rooms = set(re.findall(r"^\| `([\w/]+)/` \|", text, re.M))
    folders = {str(module.path.parent) for module in modules if module.path.parent.parts}
    named = {name for name in folders if name.rpartition("/")[2] + "/`" in text}
    assert rooms <= folders | {"catalog/wire"}
    assert named == folders


def test_every_module_lies_in_a_package(root, modules):
    for module in modules:
        assert (root / module.path.parent / "__init__.py").exists(), module.path


def test_folders_that_must_not_be_packages(root):
    """A package named `proto` would shadow proto-plus; tests are no part of the package."""
    for folder in ("proto", "tests", "bench", "docs", "fixtures"):
        assert not list((root / folder).rglob("__init__.py"))


def test_test_files_have_names_of_their_own(python_files):
    names = [path.name for path in python_files if path.name.startswith("test_")]
    assert sorted(names) == sorted(set(names))


def test_every_test_file_is_in_tests(python_files):
    strays = [p for p in python_files if p.name.startswith("test_") and p.parts[0] != "tests"]
    assert not strays


def test_the_package_is_typed(root):
    assert (root / "py.typed").exists()
