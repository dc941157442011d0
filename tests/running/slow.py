"""A test that takes long says why, with `@pytest.mark.slow("the reason")`: a plugin of pytest.

A run names those that don't, and passes: how fast the machine is must not decide that.
"""

from __future__ import annotations

import pytest

# Worth a reason is what takes 10 s alone. In a run other tests compete for the cores.
LIMIT_S = 20.0


class Watch:
    """Notes the tests that took too long and don't say why."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        marked = {"slow", "long"} & set(report.keywords)
        if report.when == "call" and report.duration > LIMIT_S and not marked:
            self.found.append(f"{report.nodeid}: {report.duration:.0f} s")

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
