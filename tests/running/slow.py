"""A test that takes long says why, with `@pytest.mark.slow("the reason")`: a plugin of pytest.

In CI a run fails of a very slow test without the mark: how fast the machine is must not decide it.
"""

from __future__ import annotations

import os

import pytest

# Worth a reason is what takes 10 s alone. In a run other tests compete for the cores.
LIMIT_S = 20.0
FAILS_S = 60.0


def limit_s(usual_s: float, load: float, cores: int) -> float:
    """The limit, longer where a core has more than the run's own two processes to serve."""
    return usual_s * max(1.0, load / cores / 2)


class Watch:
    """Notes the tests that took too long and don't say why."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.fails = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        marked = {"slow", "long"} & set(report.keywords)
        limit = limit_s(LIMIT_S, os.getloadavg()[0], os.cpu_count() or 1)
        if report.when == "call" and report.duration > limit and not marked:
            self.found.append(f"{report.nodeid}: {report.duration:.0f} s")
            self.fails |= report.duration > limit * FAILS_S / LIMIT_S

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.fails and os.environ.get("CI"):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.found:
            terminalreporter.section(f"over {LIMIT_S:.0f} s without a mark `slow(reason)`")
            for line in self.found:
                terminalreporter.line(line)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the workers' reports all come to their controller
        config.pluginmanager.register(Watch(), "slow-watch")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark = item.get_closest_marker("slow")
        if mark is not None and not (len(mark.args) == 1 and isinstance(mark.args[0], str)):
            raise pytest.UsageError(f"{item.nodeid}: slow() takes the reason")
