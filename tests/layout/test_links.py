"""Documents: every link inside the repository leads somewhere, and none leads to this machine."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest

LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*\s*$")
FENCE = re.compile(r"^\s*(```|~~~)")
# A path of one machine says nothing on another. Written in pieces, so that this file passes.
MACHINE = [
    re.compile(pattern)
    for pattern in (
        r"(?<![\w.])/" + r"work/",
        r"(?<![\w.])/" + r"tmp/x\b",
        r"(?<![\w.])/" + r"root/",
        r"(?<![\w.])/" + r"home/(?!somebody\b)\w+",
        r"(?<![\w.])/" + r"Users/(?!somebody\b)\w+",
        r"/" + r"site-packages/",
    )
]


def prose(text: str) -> str:
    """A document without its code blocks."""
    kept, inside = [], False
    for line in text.splitlines():
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            kept.append(line)
    return "\n".join(kept)


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as code hosts make them."""
    found: set[str] = set()
    for line in prose(text).splitlines():
        match = HEADING.match(line)
        if match:
            words = re.sub(r"`|\*|\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).lower()
            slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            number = 0
            while (anchor := f"{slug}-{number}" if number else slug) in found:
                number += 1
            found.add(anchor)
    return found


@pytest.fixture(scope="session")
def documents(root, text_files):
    return [path for path in text_files if path.suffix == ".md"]


def test_there_is_a_readme(documents):
    assert any(str(path) == "README.md" for path in documents)


def test_links_inside_the_repository_lead_somewhere(root, documents):
    broken = []
    for path in documents:
        text = (root / path).read_text(encoding="utf-8")
        for match in LINK.finditer(prose(text)):
            target = unquote(match[1] or match[2])
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            file, _, anchor = target.partition("#")
            goal = (root / path.parent / file).resolve() if file else root / path
            if not goal.exists():
                broken.append(f"{path}: {target}")
            elif anchor and anchor not in anchors(goal.read_text(encoding="utf-8")):
                broken.append(f"{path}: {target} (no such heading)")
    assert not broken


def test_the_documents_that_the_code_names_exist(root, text_files):
    """`docs/format.md, section 5.2` in a docstring is a promise."""
    broken = set()
    for path in text_files:
        if path.parts[0] == "tests":
            continue
        for name in re.findall(r"\bdocs/[\w.-]+\.md\b", (root / path).read_text(encoding="utf-8")):
            if not (root / name).exists():
                broken.add(f"{path}: {name}")
    assert not broken


def test_the_tests_that_the_documents_name_exist(root, documents):
    """A promise that names its test is held to it."""
    found = [path for path in (root / "tests").rglob("test_*.py")]
    known = {path.name for path in found}
    for path in found:
        known |= set(re.findall(r"^ *def (test_\w+)\(", path.read_text(encoding="utf-8"), re.M))
    broken = set()
    for path in documents:
        for name in re.findall(r"\b(test_\w+(?:\.py)?)\b", (root / path).read_text("utf-8")):
            if name not in known:
                broken.add(f"{path}: {name}")
    assert not broken


def test_the_sections_that_the_code_names_exist(root, text_files):
    format_text = root / "docs" / "format.md"
    numbers = set()
    for line in prose(format_text.read_text(encoding="utf-8")).splitlines():
        match = re.match(r"#{1,6}\s+(\d+(?:\.\d+)*)\.?\s", line)
        if match:
            numbers.add(match[1])
    broken = set()
    for path in text_files:
        if path.parts[0] == "tests":
            continue
        text = re.sub(r"\s+(?:#|//)?\s*", " ", (root / path).read_text(encoding="utf-8"))
        for words in re.findall(r"docs/format\.md, sections? ((?:\d[\d.]*|, | and | to )+)", text):
            for number in re.findall(r"\d+(?:\.\d+)*", words):
                if number not in numbers:
                    broken.add(f"{path}: section {number}")
    assert not broken


def test_no_path_of_one_machine(root, text_files):
    found = []
    for path in text_files:
        text = (root / path).read_text(encoding="utf-8")
        if not any(pattern.search(text) for pattern in MACHINE):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if any(pattern.search(line) for pattern in MACHINE):
                found.append(f"{path}:{number}: {line.strip()[:80]}")
    assert not found
