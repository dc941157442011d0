"""Real processes for a test to stop and to kill, forked from one that has imported lakelog."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

PATIENCE_S = 60.0


@dataclass
class Child:
    """One forked process that commits in a loop (see `child.work`)."""

    pid: int
    report: Path
    nursery: Nursery = field(repr=False)
    status: int | None = None

    def told(self, what: str | None = None) -> list[dict[str, Any]]:
        """Lines of its report so far; a line that its death cut short is none."""
        try:
            lines = self.report.read_bytes().split(b"\n")[:-1]
        except FileNotFoundError:
            return []
        found = [json.loads(line) for line in lines]
        return [line for line in found if what is None or line["what"] == what]

    def await_line(self, what: str, number: int = 1) -> list[dict[str, Any]]:
        """Wait until it has told something so often."""
        deadline_s = time.monotonic() + PATIENCE_S
        while len(found := self.told(what)) < number:
            if time.monotonic() > deadline_s or self.told("error"):
                found = self.told(what)
                assert len(found) >= number, f"no {what}: {self.told()[-3:]}"
                return found
            time.sleep(0.002)
        return found

    def await_stopped(self) -> None:
        """Wait until the system says that it stands still."""
        deadline_s = time.monotonic() + PATIENCE_S
        while Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
            assert time.monotonic() < deadline_s, "it never stopped"
            time.sleep(0.001)

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        self.await_stopped()

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> int:
        """kill -9; nothing of it runs any more when this returns."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def wait(self) -> int:
        """Its exit status, once it has ended."""
        if self.status is None:
            self.status = int(self.nursery.ask({"wait": self.pid}))
        return self.status


class Nursery:
    """The process that forks the others. What is left when it ends, dies."""

    def __enter__(self) -> Nursery:
        program = Path(__file__).with_name("child.py")
        self._process = subprocess.Popen(
            [sys.executable, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._read() == "ready"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=10)
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def fork(self, url: str, report: Path, **job: Any) -> Child:
        """Begin a child on a store; see `child.work` for what it can be told."""
        return Child(int(self.ask({"url": url, "report": str(report), **job})), report, self)

    def ask(self, command: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())
