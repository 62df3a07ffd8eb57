"""The pytest plugin of `worldsize selftest`: it runs a part of the suite's tests on one compute, and reports each test
that ends.

The order is a JSON file that the variable WORLDSIZE_SELFTEST names:

target    the fields of a `Target`; `environ` lists the names of variables, whose values this process has
lane      [i, k]: this process runs every k-th test, from the i-th on
deadline  by time.monotonic(): no test is begun after it
news      the file to which a line with a JSON object is appended for each event: "tests", "begin", "end", "hosts"
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import pytest

from worldsize.wings.selftest.remains import end_jobs, handles_below, hosts_below
from worldsize_conformance.fixtures import make_place
from worldsize_conformance.place import Place, Target

VARIABLE = "WORLDSIZE_SELFTEST"
_LONGEST_REASON = 600
_PATIENCE = 30.0
"""The smallest number of seconds to wait for the end of jobs that a failed test has left."""


def read_order() -> dict[str, Any]:
    with open(os.environ[VARIABLE], encoding="utf-8") as file:
        order: dict[str, Any] = json.load(file)
    return order


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Session(read_order()), "worldsize-selftest")


@pytest.fixture
def target() -> Target:
    fields = read_order()["target"]
    return Target(**{**fields, "environ": {name: os.environ[name] for name in fields["environ"] if name in os.environ}})


@pytest.fixture
def place(target: Target) -> Iterator[Place]:
    """Yield the Place for a test of the self-test: a separate project and home directory, with the command line, on the
    compute `target`. Afterwards nothing of it is left: no job, no file."""
    root = tempfile.mkdtemp(dir=target.directory)
    yield from make_place(root, target, end=end_all)
    shutil.rmtree(root, ignore_errors=True)


def end_all(place: Place) -> None:
    """Report the machines that the test has used, as an event "hosts" for the self-test, and end the jobs that a failed
    test has left."""
    tell(read_order()["news"], "hosts", hosts=sorted(hosts_below(place.root)))
    handles = handles_below(place.root)
    if handles:
        end_jobs(place.compute(), handles, max(_PATIENCE, place.target.patience / 3))


def tell(news: str, event: str, **fields: Any) -> None:
    with open(news, "a", encoding="utf-8") as file:
        file.write(json.dumps({"event": event, **fields}) + "\n")


class Session:
    """The plugin object of one lane. It reports when each test begins and ends, and begins none after the deadline."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.lane: list[int] = order["lane"]
        self.deadline: float = order["deadline"]
        self.news: str = order["news"]
        self._reports: dict[str, list[pytest.TestReport]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        number, count = self.lane
        items[:] = items[number::count]
        tell(self.news, "tests", tests=[item.name for item in items])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        if time.monotonic() > self.deadline:
            return True  # pytest considers it done, and no event is reported: it counts as not run
        tell(self.news, "begin", test=item.name)
        self._reports.clear()
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        reports = self._reports.setdefault(report.nodeid, [])
        reports.append(report)
        if report.when == "teardown":
            tell(self.news, "end", test=report.nodeid.rpartition("::")[2], **verdict(reports))


def verdict(reports: list[pytest.TestReport]) -> dict[str, Any]:
    """Return the result of one test of the suite from pytest's reports on it (setup, call, teardown), as the fields
    `outcome` ("passed", "failed" or "skipped"), `seconds` and `reason`, which is "" if it passed."""
    telling = next((each for each in reports if each.failed), None) or next(
        (each for each in reports if each.skipped), None
    )
    seconds = round(sum(each.duration for each in reports), 1)
    if telling is None:
        return {"outcome": "passed", "seconds": seconds, "reason": ""}
    return {"outcome": telling.outcome, "seconds": seconds, "reason": reason_of(telling)}


def reason_of(report: pytest.TestReport) -> str:
    """Return the reason in pytest's report on a failed or skipped test, as one line without the directory of the file:
    `lifecycle.py:63: AssertionError: …`."""
    said = report.longrepr
    if isinstance(said, tuple):
        return str(said[2]).removeprefix("Skipped: ")[:_LONGEST_REASON]
    crash = getattr(said, "reprcrash", None)
    if crash is None:
        return " ".join(str(said).split())[-_LONGEST_REASON:]
    text = " ".join(str(crash.message).split())[:_LONGEST_REASON]
    return "%s:%d: %s" % (os.path.basename(str(crash.path)), crash.lineno, text)
