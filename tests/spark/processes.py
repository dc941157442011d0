"""Processes that a test starts: they are watched while it waits, and killed at its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lakelog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE = Path(__file__).parent
LIMIT_S = 280.0  # only a test that fails waits so long, or a machine that does much else
PACKAGES = Path(lakelog.__file__).parent.parent  # where this lakelog is imported from


class Processes:
    """Those of one test, each in a process group of its own.

    Args:
        folder: Where they run, and where what they say is kept.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: dict[str, subprocess.Popen[str]] = {}

    def python(
        self, name: str, *argv: object, more: Mapping[str, str | None] | None = None
    ) -> None:
        """Start this Python, with this lakelog."""
        path = os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get("PYTHONPATH")]))
        self.start(name, [sys.executable, *argv], {"PYTHONPATH": path} | dict(more or {}))

    def start(
        self, name: str, argv: list[object], more: Mapping[str, str | None] | None = None
    ) -> None:
        """Start a program; what it says goes to `<name>.out`. None takes a variable out."""
        changed = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"} | dict(more or {})
        env = {key: value for key, value in changed.items() if value is not None}
        with (self._folder / f"{name}.out").open("w") as out:
            self._started[name] = subprocess.Popen(
                [str(word) for word in argv], env=env, start_new_session=True, cwd=self._folder,
                stdout=out, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip

    def said(self, name: str) -> str:
        """All that one has said."""
        return (self._folder / f"{name}.out").read_text()

    def until(self, asked: Callable[[], object], *alive: str) -> None:
        """Wait until something is so; these processes must not fail before."""
        end = time.monotonic() + LIMIT_S
        while not asked():
            for name in alive:
                assert not self._started[name].poll(), self.said(name)[-3000:]
            assert time.monotonic() < end, {name: self.said(name) for name in self._started}
            time.sleep(0.002)

    def ended(self, name: str) -> int:
        """Wait for its end; the exit code."""
        return self._started[name].wait(LIMIT_S)

    def terminate(self, name: str) -> int:
        """Ask it to end; the exit code."""
        self._started[name].send_signal(signal.SIGTERM)
        return self.ended(name)

    def kill(self, name: str) -> None:
        """kill -9, of all that it has started, too."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._started[name].pid, signal.SIGKILL)
        self._started[name].wait()

    def kill_all(self) -> None:
        """At the end of a test."""
        for name in self._started:
            self.kill(name)
