"""The processes that read footers: malformed bytes, deaths, threads, forks and interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from footer_cases import GOOD, SIZE, a_killer, footer_of, mutants
from lakelog.catalog.data.footers import pool as module
from lakelog.catalog.data.footers.parse import NotParquet
from lakelog.catalog.data.footers.pool import FooterPool, footer_pool
from lakelog.errors import LakelogError


def test_ten_thousand_malformed_footers_and_this_process_lives():
    nested = footer_of(pa.table({"l": [[1], []], "m": [{"x": "a"}, None]}), row_group_size=1)
    plain = footer_of(pa.table({"a": [1], "s": ["x"]}), store_schema=False)
    outcomes = {"ok": 0, "refused": 0, "died": 0}

    def attempt(case: tuple[bytes, int]) -> None:
        try:
            footer_pool().parse(*case)
            outcomes["ok"] += 1
        except NotParquet as error:
            outcomes["died" if "dies" in str(error) else "refused"] += 1

    cases = [
        (mutant, size)
        for seed, (tail, size) in enumerate([(GOOD, SIZE), nested, plain])
        for mutant in mutants(tail, 3_400, seed)
    ]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(attempt, cases))
    assert sum(outcomes.values()) == len(cases) >= 10_000
    # Without deaths among them this test would show nothing of what it is for.
    assert outcomes["died"] >= 5, outcomes
    assert outcomes["refused"] > outcomes["died"]
    assert footer_pool().parse(GOOD, SIZE).facts.row_count == 3


def test_a_child_may_wait_long_for_its_first_footer(monkeypatch):
    """The limit of its start ends with its start."""
    limit_s = 5
    start = module._START.replace(f"alarm({module.START_LIMIT_S})", f"alarm({limit_s})")
    assert start != module._START
    monkeypatch.setattr(module, "_START", start)
    pool, began_s = FooterPool(1), time.monotonic()
    pool.start()
    (child,) = pool._idle
    time.sleep(max(0.0, began_s + limit_s + 0.5 - time.monotonic()))
    assert child.process.poll() is None
    assert pool.parse(GOOD, SIZE).facts.row_count == 3
    pool.close()


def test_a_footer_that_would_abort_this_process_aborts_a_child():
    killer = a_killer()
    done = subprocess.run(
        [sys.executable, "-c", "import sys\n"
         "from lakelog.catalog.data.footers.parse import parse_footer\n"
         "parse_footer(sys.stdin.buffer.read(), int(sys.argv[1]))", str(SIZE)],
        input=killer, capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGABRT  # it is what the pool protects from
    with pytest.raises(NotParquet, match=r"dies of its footer \(SIGABRT\)"):
        footer_pool().parse(killer, SIZE)
    assert footer_pool().parse(GOOD, SIZE).facts.row_count == 3


def test_children_are_reused_and_no_more_than_asked_for():
    pool = FooterPool(2)
    try:
        with ThreadPoolExecutor(8) as threads:
            results = list(threads.map(lambda _: pool.parse(GOOD, SIZE), range(200)))
        assert {result.facts.row_count for result in results} == {3}
        first = {child.process.pid for child in pool._idle}
        pool.parse(GOOD, SIZE)
        assert {child.process.pid for child in pool._idle} == first
        assert 1 <= len(first) <= 2
    finally:
        pool.close()
    assert not pool._idle


def test_a_child_killed_from_outside_is_replaced_and_the_footer_not_blamed():
    pool = FooterPool(1)
    try:
        pool.parse(GOOD, SIZE)
        (child,) = pool._idle
        os.killpg(child.process.pid, signal.SIGKILL)
        child.process.wait()
        assert pool.parse(GOOD, SIZE).facts.row_count == 3
    finally:
        pool.close()


def test_an_interrupt_in_the_middle_of_an_answer_leaves_no_stale_child(monkeypatch):
    pool = FooterPool(1)
    try:
        pool.parse(GOOD, SIZE)
        (child,) = pool._idle

        def interrupted(*args):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(child, "_reply", interrupted)
            with pytest.raises(KeyboardInterrupt):
                pool.parse(GOOD, SIZE)
        assert not pool._idle
        assert child.process.returncode is not None
        other, size = footer_of(pa.table({"b": [1]}))
        assert pool.parse(other, size).schema.names == ["b"]  # not the answer of before
    finally:
        pool.close()


ENDLESS = """
serving = import_module(module)
serving.PARSE_LIMIT_S = 1
serving.parse_footer = lambda tail, size_bytes: [None for _ in iter(int, 1)]
serving.serve()
"""


def test_a_child_that_takes_too_long_is_ended_and_the_file_refused(monkeypatch):
    start = module._START.replace("import_module(module).serve()", ENDLESS)
    monkeypatch.setattr(module, "_START", start)
    pool = FooterPool(1)
    with pytest.raises(NotParquet, match="takes over 90 s"):
        pool.parse(GOOD, SIZE)
    assert not pool._idle
    monkeypatch.undo()
    try:
        assert pool.parse(GOOD, SIZE).facts.row_count == 3
    finally:
        pool.close()


def test_a_child_that_does_not_start_says_why(monkeypatch):
    monkeypatch.setattr(module, "__name__", "lakelog.no_such_package.pool")
    with pytest.raises(LakelogError, match="no_such_package"):
        FooterPool(1).parse(GOOD, SIZE)


def installed(folder: Path) -> None:
    """Have a folder hold all that is installed here, and lakelog."""
    folder.mkdir()
    for package in Path(pa.__file__).parents[1].iterdir():
        if package.suffix != ".pth" and "lakelog" not in package.name:
            (folder / package.name).symlink_to(package)
    (folder / "lakelog").symlink_to(Path(sys.modules["lakelog"].__path__[0]))


PARSE = """
    import os, sys
    sys.path[:0] = sys.argv[1:]
    from lakelog.catalog.data.footers.pool import footer_pool
    tail, size = bytes.fromhex(os.environ["TAIL"]), int(os.environ["SIZE"])
    print(footer_pool().parse(tail, size).facts.row_count)
"""
HOOK = """
import sys
from importlib.machinery import PathFinder
class Hook:
    def find_spec(name, path=None, target=None):
        return None if "." in name else PathFinder.find_spec(name, [{folder!r}])
sys.meta_path.append(Hook)
"""


@pytest.mark.parametrize("is_hooked", [True, False])
def test_the_child_finds_modules_where_this_process_does(tmp_path, is_hooked):
    """Installed by an import hook, as editable packages are; or on a path with a colon."""
    venv.create(tmp_path / "venv", symlinks=True, with_pip=False)
    folder = tmp_path / ("all" if is_hooked else "all:else")
    installed(folder)
    if is_hooked:
        (site,) = tmp_path.glob("venv/lib/*/site-packages")
        (site / "hook.py").write_text(HOOK.format(folder=str(folder)))
        (site / "hook.pth").write_text("import hook\n")
    folders = [] if is_hooked else [folder]
    done = subprocess.run(
        [tmp_path / "venv/bin/python", "-c", textwrap.dedent(PARSE), *folders],
        capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"], "TAIL": GOOD.hex(), "SIZE": str(SIZE)},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_no_credentials_reach_the_child(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    pool = FooterPool(1)
    try:
        pool.parse(GOOD, SIZE)
        (child,) = pool._idle
        with open(f"/proc/{child.process.pid}/environ", "rb") as environment:
            assert b"very-secret" not in environment.read()
    finally:
        pool.close()


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=60, check=False,
        env=dict(os.environ, TAIL=GOOD.hex(), SIZE=str(SIZE)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stderr
    return done.stdout


START = """
    import os, sys
    from lakelog.catalog.data.footers.pool import footer_pool
    tail, size = bytes.fromhex(os.environ["TAIL"]), int(os.environ["SIZE"])
    rows = lambda: footer_pool().parse(tail, size).facts.row_count
    pids = lambda: [child.process.pid for child in footer_pool()._idle]
    assert rows() == 3
    before = pids()
"""


def test_a_fork_uses_children_of_its_own():
    out = run(
        START
        + """
    fork = os.fork()
    if fork == 0:
        ok = rows() == 3 and not set(before) & set(pids())
        footer_pool().close()
        os._exit(0 if ok else 1)
    assert all(rows() == 3 for _ in range(20))
    assert os.waitpid(fork, 0)[1] == 0
    assert pids() == before and rows() == 3
    print("done")
    """
    )
    assert out == "done\n"


def members(groups: list[str]) -> list[str]:
    """Processes of these groups that are more than a dead entry waiting for its parent."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[2] in groups and fields[0] != "Z":
            found.append(process.name)
    return found


def test_children_end_with_the_process_even_if_it_is_killed():
    out = run(
        START
        + """
    print(*before, flush=True)
    """
    )
    assert out.split()
    assert not members(out.split())
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(START)
         + "print(*before, flush=True)\nos.kill(os.getpid(), 9)"],
        capture_output=True, text=True, check=False,
        env=dict(os.environ, TAIL=GOOD.hex(), SIZE=str(SIZE)),
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    for _ in range(200):
        if not members(killed.stdout.split()):
            return
        signal.sigtimedwait([], 0.02)
    pytest.fail("a child outlives its parent")


def test_a_shadowing_folder_in_the_working_directory_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "struct.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    pool = FooterPool(1)
    try:
        assert pool.parse(GOOD, SIZE).facts.row_count == 3
    finally:
        pool.close()
