"""Which tests a command runs, in which order, and what became of each: options of pytest for scripts/testing.

A test belongs to one part, by its folder (in chaos/ and conformance/ by its compute). `make test` runs all but those
that are marked `exhaustive`; `make test-all` runs every one; `make test-fast` those of `make test` that take no time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PARTS = {
    "unit": "unit",
    "e2e": "local",
    "causes": "local",
    "hangs": "local",
    "warm_start": "local",
    "slurm": "slurm",
    "hpcpack": "hpcpack",
    "azure": "azure",
    "environments": "environments",
    "frameworks": "frameworks",
    "data_parallel": "data_parallel",
    "rehearsal": "data_parallel",
    "security": "security",
    "docs": "docs",
    "compatibility": "local",
}
"""The part of the tests in each folder."""

CONFORMANCE = {"[local": "local", "[slurm": "slurm", "[hpcpack": "hpcpack"}
"""The part of a conformance test, by how its parameters begin."""

TIERS = ("fast", "standard", "all", "rest")
NOT_QUICK = ("slow", "heavy", "timing", "training", "slurm", "exhaustive")
"""Marks of unit tests that are not among the quick ones, which the tier `fast` is."""

TRAINING = {"frameworks", "data_parallel", "rehearsal"}
"""Folders whose tests compute on all cores; others are marked `training` one by one."""

NEVER_RETRIED = {"unit", "conformance", "security"}
"""Folders whose tests, when they fail, have found something."""


CASES = "WORLDSIZE_FUZZ_CASES"
"""The variable that sets how many cases each property test tries (`make fuzz`)."""

FAST_SHARE = 8
FEWEST_CASES = 10
_share = 1


def cases(number: int = 200) -> int:
    """How many cases a property test tries that has `number` of its own: the tier `fast` tries an eighth of them, and
    what only the others find, `make test` finds."""
    if CASES in os.environ:
        return int(os.environ[CASES])
    return min(number, max(number // _share, FEWEST_CASES))


def set_tier(tier: str | None) -> None:
    """Have `cases` count for this tier, before test modules are imported."""
    global _share
    _share = FAST_SHARE if tier == "fast" else 1


def part_of(nodeid: str) -> str:
    """The part that a test belongs to; its id is relative to the repository."""
    folder = nodeid.split("::")[0].split("/")[1]
    if folder == "chaos":
        return "slurm" if nodeid.split("::")[0].endswith("test_slurm.py") else "local"
    if folder != "conformance":
        return PARTS[folder]
    return next((part for mark, part in CONFORMANCE.items() if mark in nodeid), "local")


def may_be_retried(nodeid: str, markers: Mapping[str, object]) -> bool:
    """Whether a failure may be one of the machine's: not where logic or faults made on purpose are tested."""
    return nodeid.split("/")[1] not in NEVER_RETRIED and "chaos" not in markers


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("selection of tests")
    group.addoption("--tier", choices=TIERS, help="standard: without exhaustive ones; rest: those alone; all; fast")
    group.addoption("--part", action="append", default=[], choices=sorted(set(PARTS.values())), help="only this part")
    group.addoption("--order", metavar="FILE", help="JSON: test files or ids, in the order to run them; no others run")
    group.addoption("--until", type=float, metavar="TIME", help="start no test after this time (seconds since 1970)")
    group.addoption("--outcomes", metavar="FILE", help="append each test's outcome to FILE, a line of JSON each")


def pytest_configure(config: pytest.Config) -> None:
    set_tier(config.getoption("--tier"))
    if config.getoption("--outcomes") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Outcomes(config.getoption("--outcomes")))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.split("/")[1] in TRAINING:
            item.add_marker("training")
        if item.nodeid.split("/")[1] == "unit" and not any(item.get_closest_marker(name) for name in NOT_QUICK):
            item.add_marker("quick")
    tier, parts, order = (config.getoption(name) for name in ("--tier", "--part", "--order"))
    kept = [item for item in items if _in_tier(item, tier) and (not parts or part_of(item.nodeid) in parts)]
    if order:
        ranks = {name: rank for rank, name in enumerate(json.loads(Path(order).read_text()))}
        places = {item: ranks.get(item.nodeid, ranks.get(item.nodeid.split("::")[0])) for item in kept}
        kept = sorted((item for item in kept if places[item] is not None), key=lambda item: places[item] or 0)
    left_out = set(items) - set(kept)
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = kept


def _in_tier(item: pytest.Item, tier: str | None) -> bool:
    if tier == "fast":
        return item.get_closest_marker("quick") is not None
    return tier in (None, "all") or _is_exhaustive(item) == (tier == "rest")


def _is_exhaustive(item: pytest.Item) -> bool:
    """Whether it is marked `exhaustive` and not one of the cases whose ids the mark lists as `unless`."""
    case = item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else None
    return any(case not in mark.kwargs.get("unless", ()) for mark in item.iter_markers("exhaustive"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Once the time is up, a test counts as done without a report: it is left out, neither passed nor failed. One that
    is marked `long` has to end before."""
    until = item.config.getoption("--until")
    mark = item.get_closest_marker("long")
    needed = 60.0 * mark.kwargs["minutes"] if mark else 0.0
    if until is None or time.time() + needed < until:
        return None
    # The test before has kept what it shares with this one. No hook takes that down without a report.
    item.session._setupstate.teardown_exact(nextitem)
    return True


class Outcomes:
    """Writes a line for each test that has run, with the worst that came of its set-up, itself and its tear-down."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "a", encoding="utf-8")
        self.running: dict[str, dict[str, object]] = {}
        self.counted = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._write({"selected": len(session.items)})

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        """Every worker has the same tests."""
        if not self.counted:
            self.counted = True
            self._write({"selected": len(ids)})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write({"id": report.nodeid or "collection", "outcome": "error", "seconds": 0.0, "retry": False})

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        markers = report.keywords
        found = self.running.setdefault(
            report.nodeid,
            {"id": report.nodeid, "outcome": "passed", "seconds": 0.0, "retry": may_be_retried(report.nodeid, markers)},
        )
        found["seconds"] = float(found["seconds"]) + report.duration  # type: ignore[arg-type]
        if report.outcome != "passed" and found["outcome"] != "failed":
            found["outcome"] = report.outcome
        if report.failed:
            found["text"] = str(found.get("text", "")) + report.longreprtext + "\n"
        if report.when == "teardown":
            self._write(self.running.pop(report.nodeid))

    def pytest_sessionfinish(self) -> None:
        for unfinished in self.running.values():
            self._write({**unfinished, "outcome": "failed"})
        self.file.close()

    def _write(self, found: dict[str, object]) -> None:
        self.file.write(json.dumps(found) + "\n")
        self.file.flush()
