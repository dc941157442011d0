"""`lakelog shell`: statements from stdin, and a person at a terminal."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import sys
import time

import pytest


@pytest.fixture
def shell(cli, weather, monkeypatch):
    """`shell(script, ...)`: the script on stdin."""

    def call(script, *options):
        monkeypatch.setattr("sys.stdin", io.StringIO(script))
        return cli("shell", weather, "weather", *options)

    return call


def test_a_script(shell):
    script = """select count(*) as n
        from hourly;
    .tables
    .mode csv
    select ';
    ' as x; select 2 as y;
    select count(*) as n from first.hourly"""
    found = shell(script, "--also", "first=EWR=0")
    assert (found.code, found.err) == (0, "")
    lines = [line.strip() for line in found.out.splitlines()]
    assert lines[:2] == ["n", "12"]
    assert "stations" in lines
    assert lines[-4:] == ["y", "2", "n", "3"]


ENDLESS = (
    "select count(*) from hourly, range(9000000) a, range(9000000) b where a.range*b.range % 7 = 1"
)


def test_the_first_error_ends_a_script(shell):
    found = shell("select 1 as a;\nselect nope from hourly;\nselect 2 as b;\n", "-o", "csv")
    assert found.code == 2
    assert found.out == "a\n1\n"
    assert '"nope"' in found.err
    assert shell("select 'no end").code == 2
    assert shell(".quit\nselect nope;").code == 0
    assert ".mode" in shell(".mode parquet\n").out


def test_words_that_leave(shell):
    for word in ("exit", "QUIT", "quit;", ".quit"):
        found = shell(f"select 1 as a;\n{word}\nselect nope;\n", "-o", "csv")
        assert (found.code, found.out) == (0, "a\n1\n")
    assert "There is no .foo bar\n" in shell(".foo bar\n").out
    assert "There is no" not in shell(".help\n").out


class Terminal:
    """A shell at a terminal, in a process of its own."""

    def __init__(self, url: str) -> None:
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            # Who runs the tests in the background of a script has them ignore Ctrl-C.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            argv = [sys.executable, "-m", "lakelog", "shell", url, "weather"]
            os.execv(sys.executable, argv)
        self.seen = ""

    def until(self, words: str, *, again: str = "") -> str:
        """What it prints up to some words.

        Args:
            again: Is typed each five seconds, as a person would: Python's readline may sleep on if
                a signal comes just before it waits for a key.
        """
        began = time.monotonic()
        typed_s = 0.0
        while words not in self.seen:
            waited_s = time.monotonic() - began
            assert waited_s < 60, self.seen
            if again and waited_s > typed_s + 5:
                typed_s = waited_s
                self.type(again)
            if select.select([self._end], [], [], 0.2)[0]:
                self.seen += os.read(self._end, 4096).decode()
        before, _, self.seen = self.seen.partition(words)
        return before

    def type(self, words: str) -> None:
        os.write(self._end, words.encode())

    def ended(self) -> int:
        os.set_blocking(self._end, False)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_person_at_a_terminal(weather, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.delenv("INPUTRC", raising=False)
    person = Terminal(weather)
    person.until("lakelog> ")
    person.type("select max(te\t) as t from hourl\t;\n")
    assert "62.5" in person.until("lakelog> ")
    person.type("select nope;\n")
    assert "nope" in person.until("lakelog> ")
    person.type("select 7\n")
    person.until("...> ")
    person.type("\x03")
    person.until("lakelog> ", again="\x03")
    person.type(f"{ENDLESS};\n")
    person.until("= 1;")
    time.sleep(1)  # and it runs
    person.type("\x03")
    assert "fault" not in person.until("lakelog> ", again="\x03")
    person.type("select 8 as only;\n")
    assert re.search(r"only\s+8", person.until("lakelog> "))
    person.type("\x04")
    assert person.ended() == 0
    history = (tmp_path / "lakelog" / "sql_history").read_text()
    assert "select max(temp) as t from hourly;" in history
