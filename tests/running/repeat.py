"""The run's seed: given to Hypothesis, shown in the head, and shown again beside a failure.

`LAKELOG_EXAMPLES=5000 pytest tests/catalog` runs the property tests longer; `make soak` has 1,000.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from sample import examples
from seeds import NAME, base_seed

# Fewer examples than by default, on other seeds with each commit; a failure prints what repeats it.
settings.register_profile(
    "ci",
    max_examples=examples(15),
    derandomize=False,
    print_blob=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def repeats(seed: int, tests: list[str]) -> str:
    """The command that runs tests again as they failed."""
    names = " ".join(f"'{test}'" for test in tests)
    return f"{NAME}={seed} .venv/bin/python -m pytest {names}"


@pytest.hookimpl(tryfirst=True)  # before Hypothesis looks
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(base_seed())
    settings.load_profile("ci")


def pytest_report_header() -> str:
    return f"seed {base_seed()} ({NAME}={base_seed()} repeats the run)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    failed = [report.nodeid for report in terminalreporter.stats.get("failed", [])][:20]
    if failed:
        terminalreporter.section("to repeat what failed")
        terminalreporter.line(repeats(base_seed(), failed))
