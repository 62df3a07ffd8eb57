"""How many cases property tests try."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import selection
from selection import cases, set_tier


@pytest.fixture
def own_number(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[pytest.MonkeyPatch]:
    monkeypatch.delenv(selection.CASES, raising=False)
    monkeypatch.setattr(selection, "_share", 1)
    yield monkeypatch
    monkeypatch.undo()
    set_tier(request.config.getoption("--tier"))


def test_the_number_of_cases_is_the_callers(own_number: pytest.MonkeyPatch) -> None:
    own_number.setenv(selection.CASES, "10000")
    set_tier("fast")
    assert cases() == cases(25) == 10000


@pytest.mark.parametrize("tier", ["standard", "all", "rest", None])
def test_each_test_has_its_own_number(own_number: pytest.MonkeyPatch, tier: str | None) -> None:
    set_tier(tier)
    assert (cases(), cases(25), cases(3)) == (200, 25, 3)


def test_the_fast_tier_tries_an_eighth(own_number: pytest.MonkeyPatch) -> None:
    set_tier("fast")
    assert (cases(), cases(150), cases(25), cases(3)) == (25, 18, 10, 3)
