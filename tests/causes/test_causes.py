"""Each cause is provoked, or what others say of it is simulated: `why` names it as its page of docs/causes/ shows."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest
from driver import Cli

from causes.case import Case
from causes.conditions import missing
from causes.pages import documented_screens, is_told_rightly
from causes.screen import certain_part, take_screen
from causes.tables.cases import CASES

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def cli() -> Iterator[Cli]:
    """In a folder whose path is short: a screen cuts lines that are long."""
    with tempfile.TemporaryDirectory() as folder:
        cli = Cli(folder)
        yield cli
        cli.close()


PARAMETERS = [
    pytest.param(page, case, id=case.title, marks=() if case.quick else pytest.mark.exhaustive)
    for page, cases in CASES.items()
    for case in cases
]


@pytest.mark.parametrize(("page", "case"), PARAMETERS)
def test_the_cause_is_named(cli: Cli, page: str, case: Case) -> None:
    lacks = missing(case)
    if lacks:
        pytest.skip(lacks)
    screen = take_screen(cli, case)
    assert is_told_rightly(case, page, screen), screen
    assert case.varies or screen.certain == certain_part(documented_screens(page)[case.title])
