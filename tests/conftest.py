"""Under CI a skipped test is a failed test: what cannot run there must be installed there, not left out."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from importlib import import_module

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["selection", "slurm.fixtures", "hpcpack.fixtures", "azureml_double.fixtures"]
CI = os.environ.get("CI", "").lower() in ("1", "true", "yes")


def load_profile() -> None:
    """Nowhere does a property have to hold within a time: the machine may be busy."""
    # pytest loads it as a plug-in, after this file; how many cases there are affects the outcome of no test
    cases = import_module("selection").cases
    default = settings.get_profile("default").max_examples
    most = min(cases(default), default)  # `make fuzz` asks for more of those that say how many they try
    settings.register_profile(
        "worldsize", max_examples=most, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
    settings.load_profile("worldsize")


def heed_interrupts() -> None:
    """A shell has what it puts into the background (`make test &`) ignore these, and so would all that tests start."""
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, default)


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    load_profile()
    heed_interrupts()


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = "skipped under CI, where nothing may be skipped: %s" % reason


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse_skip(report)
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """The last word: a skip that came another way (a plugin's, a worker's) fails the session too."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if CI and exitstatus == pytest.ExitCode.OK and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
