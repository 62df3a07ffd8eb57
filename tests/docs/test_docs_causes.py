"""The pages of docs/causes/ are those of the tables, and show a screen of each cause, as tests/causes takes it."""

from __future__ import annotations

import pytest
from causes.pages import FOLDER, TITLES, documented_screens, entries, overview, page_texts
from causes.tables.cases import CASES
from causes.tables.slurm_cases import SLURM_CASES

WITHOUT_SCREEN = {"rejected"}
"""`rejected` happens where nothing has started yet: `submit` itself refuses the job, and prints why."""


@pytest.mark.parametrize("folder", TITLES)
def test_pages_are_those_of_their_table(folder: str) -> None:
    screens = documented_screens(folder)
    pages = {path.name: path.read_text() for path in (FOLDER / folder).iterdir()}
    assert pages == page_texts(folder, screens), "make causes PAGE=%s" % folder
    titles = {case.title for case in (*CASES[folder], *SLURM_CASES)}
    assert set(screens) <= titles


def test_all_causes_are_on_one_page() -> None:
    assert (FOLDER / "index.md").read_text() == overview()


@pytest.mark.parametrize("folder", TITLES)
def test_every_cause_has_a_screen(folder: str) -> None:
    documented = documented_screens(folder)
    shown = {
        case.section or case.id.removesuffix("-on-one-node")
        for case in (*CASES[folder], *SLURM_CASES)
        if case.title in documented
    }
    assert set(entries(folder)) - shown <= WITHOUT_SCREEN


def test_titles_are_unique() -> None:
    titles = [case.title for cases in CASES.values() for case in cases] + [case.title for case in SLURM_CASES]
    assert len(titles) == len(set(titles))
