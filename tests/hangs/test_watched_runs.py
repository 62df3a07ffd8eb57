"""Of runs that hang, ranks are named as docs/explanation/hang-accuracy.md says, and healthy ones are let alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from statistics import median
from typing import Any

import pytest
from driver import Cli
from slurm.login import Login

from hangs.cases import HangCase, all_cases
from hangs.harness import lacks
from hangs.healthy import HealthyCase, all_healthy, one_of_each_kind
from hangs.page import PAGE, page_text
from hangs.results import LOCAL, NAMED, RIGHT, WRONG, Outcome, read_results
from hangs.watched_runs import watched_run

pytestmark = pytest.mark.timeout(600)
CASES = {case.id: case for case in all_cases()}
QUICK = {"loader-worker-sleeps-far", "collectives-other-call", "exits-early-end"}
"""Those that are tried each time, not only with all."""

ON_TWO_NODES = [each for each in CASES.values() if each.world == "2x2" and not each.needs]
QUICK_ON_SLURM = {"processes-stopped-far"}


def test_the_page_is_that_of_the_results() -> None:
    assert PAGE.read_text() == page_text(read_results())


def test_most_are_named_and_none_wrongly() -> None:
    """What is promised, of the results that the page shows."""
    results = read_results()
    hangs = [results[LOCAL, name] for name in CASES if (LOCAL, name) in results]
    named = [each for each in hangs if each.outcome in NAMED]
    healthy = [each for case in all_healthy() if (each := results.get((LOCAL, case.id))) is not None]
    assert len(hangs) >= len(CASES) - 1 and len(named) >= 0.85 * len(hangs), Counter(each.outcome for each in hangs)
    assert len(healthy) >= 200
    assert not [each for each in results.values() if each.outcome == WRONG]
    assert median(each.seconds for each in hangs if each.seconds is not None) <= 60.0


def parameters(cases: Iterable[HangCase], quick: Collection[str]) -> list[Any]:
    marks = {case.id: () if case.id in quick else pytest.mark.exhaustive for case in cases}
    return [pytest.param(case, id=case.id, marks=marks[case.id]) for case in cases]


def is_judged_as_before(found: Outcome) -> bool:
    """Whether the case is named where the page says so, for this machine if not for Slurm; nobody is named wrongly."""
    results = read_results()
    known = results.get((found.where, found.case), results[LOCAL, found.case])
    return found.outcome != WRONG and (found.outcome in NAMED or known.outcome not in NAMED)


@pytest.mark.parametrize("case", parameters(CASES.values(), QUICK))
def test_a_run_that_hangs(cli: Cli, case: HangCase) -> None:
    if lacks(case.needs):
        pytest.skip(lacks(case.needs))
    found = watched_run(cli, case)
    assert is_judged_as_before(found), found


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [pytest.param(each, id=each.id) for each in one_of_each_kind()])
def test_a_healthy_run(cli: Cli, case: HealthyCase) -> None:
    if lacks(case.needs):
        pytest.skip(lacks(case.needs))
    assert watched_run(cli, case).outcome == RIGHT


@pytest.mark.slurm
@pytest.mark.parametrize("case", parameters(ON_TWO_NODES, QUICK_ON_SLURM))
def test_a_run_on_slurm_that_hangs(login: Login, case: HangCase) -> None:
    found = watched_run(login, case)
    assert is_judged_as_before(found), found
