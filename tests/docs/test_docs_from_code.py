"""What pages show of the code is that of the code: options, keys, variables, errors, JSON. So are pictures."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from documents import DOCS, PAGES, ROOT, place_of, prose
from scripts.documentation.blocks import KINDS, renew
from scripts.documentation.pictures.charts import CHARTS, Chart, is_current
from scripts.documentation.pictures.life import FINAL, STATES, STEPS

from worldsize.cli.main import VERBS
from worldsize.plan.rank_variables import CONVENTIONS, VARIABLES
from worldsize.state.records import RunState
from worldsize.wings.project.verb_schemas import described_verbs

_PICTURE = re.compile(r"\]\(([\w./-]*pictures/[\w-]+\.svg)\)")


@pytest.mark.parametrize("page", [page for page in PAGES if "<!-- from the code:" in page.read_text()], ids=place_of)
def test_blocks_are_those_of_the_code(page) -> None:
    text = page.read_text(encoding="utf-8")
    assert renew(text) == text, "run: make docs-reference"


def test_every_kind_is_used() -> None:
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for kind in KINDS:
        assert "<!-- from the code: %s" % kind in texts
    for verb in VERBS:
        assert "<!-- from the code: options %s -->" % verb in texts
    for convention in dict.fromkeys(variable.convention for variable in VARIABLES):
        assert "<!-- from the code: variables %s -->" % convention in texts


def test_the_json_of_every_verb_has_a_section() -> None:
    pages = sorted((DOCS / "reference" / "json").glob("*-json.md"))
    headings = {
        line[3:] for page in pages for line in page.read_text(encoding="utf-8").splitlines() if line[:3] == "## "
    }
    assert set(described_verbs()) <= headings


def test_the_words_of_conventions_are_documented() -> None:
    words = "| `conventions` | a list of %s |" % ", ".join("`%s`" % each for each in CONVENTIONS)
    assert any(words in prose(page) for page in (DOCS / "reference" / "job-file").glob("*.md"))


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_charts_show_the_tables_of_their_pages(chart: Chart) -> None:
    picture = DOCS / "pictures" / (chart.name + ".svg")
    assert is_current(chart, picture.read_text(encoding="utf-8")), "run: make pictures"


def test_all_limits_of_benchmarks_are_in_one_table() -> None:
    command = [sys.executable, "benchmarks/tables.py", "--check"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_runs_life_has_its_states_and_files() -> None:
    states = [value for name, value in vars(RunState).items() if name == value]
    assert list(STATES) == states
    assert {step.state for step in STEPS} - {"FINAL"} == set(states) - set(FINAL)
    page = (DOCS / "reference" / "run-directory.md").read_text(encoding="utf-8")
    assert [step.file for step in STEPS if step.file and "| `%s` |" % step.file not in page] == []


def test_every_picture_is_on_a_page_and_exists() -> None:
    shown = {
        (page.parent / found).resolve()
        for page in PAGES
        for found in _PICTURE.findall(page.read_text(encoding="utf-8"))
    }
    assert shown == {path.resolve() for path in (DOCS / "pictures").iterdir()}
