"""The pages of docs/causes/ are those of the tables, and show a screen of each cause, as tests/causes takes it."""

from __future__ import annotations

import pytest
from causes.pages import FOLDER, TITLES, documented_screens, entries, page_text
from causes.tables.cases import CASES
from causes.tables.slurm_cases import SLURM_CASES

WITHOUT_SCREEN = {"rejected"}
"""`rejected` happens where nothing has started yet: `submit` itself refuses the job, and prints why."""


@pytest.mark.parametrize("page", TITLES)
def test_a_page_is_that_of_its_table(page: str) -> None:
    screens = documented_screens(page)
    assert (FOLDER / ("%s.md" % page)).read_text() == page_text(page, screens), "make causes PAGE=%s" % page
    titles = {case.title for case in (*CASES[page], *SLURM_CASES)}
    assert set(screens) <= titles


@pytest.mark.parametrize("page", TITLES)
def test_every_cause_has_a_screen(page: str) -> None:
    shown = {
        case.section or case.id.removesuffix("-on-one-node")
        for case in (*CASES[page], *SLURM_CASES)
        if case.title in documented_screens(page)
    }
    assert set(entries(page)) - shown <= WITHOUT_SCREEN


def test_titles_are_unique() -> None:
    titles = [case.title for cases in CASES.values() for case in cases] + [case.title for case in SLURM_CASES]
    assert len(titles) == len(set(titles))
