"""What pages show of the code is that of the code: options, keys, variables, errors, JSON. So are pictures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from documents import DOCS, PAGES, ROOT, find_page, place_of, prose
from scripts.documentation.blocks import KINDS, with_current_blocks
from scripts.documentation.pictures.charts import CHARTS, Chart, is_current
from scripts.documentation.pictures.life import FINAL, STATES, STEPS, draw_life

from worldsize.cli.main import VERBS
from worldsize.plan.rank_variables import CONVENTIONS, VARIABLES
from worldsize.state.records import RunState
from worldsize.wings.project.verb_schemas import described_verbs

_PICTURE = re.compile(r"\]\(([\w./-]*pictures/[\w-]+\.svg)\)")


_MADE = [page for page in PAGES if "<!-- from the code:" in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", _MADE, ids=place_of)
def test_blocks_are_those_of_the_code(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert with_current_blocks(text) == text, "run: make docs-reference"


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
    assert (DOCS / "pictures" / "life.svg").read_text(encoding="utf-8") == draw_life(), (
        "run: make pictures PICTURE=life"
    )
    page = (DOCS / "reference" / "run-directory.md").read_text(encoding="utf-8")
    assert [step.file for step in STEPS if step.file and "| `%s` |" % step.file not in page] == []


@pytest.mark.parametrize(
    ("claimed", "page", "proof"),
    [
        (
            r"in (93) a rank can be named, and in (86) of them",
            "hang-accuracy.md",
            r"(93) of 100 runs .*\*\*(86) named rightly, 0 w",
        ),
        (r"\[(1,000) faults at chosen moments\]", "reliability.md", r"All (1,000) trials were right"),
        (r"after (0\.34) of torchrun's time", "first-step.md", r"\| worldsize run, warm \| 3.0 .*?\| (0\.34) \["),
        (r"\[(64) answers .* (70) have not", "rehearsal.md", r"all\n(64) answers"),
    ],
)
def test_figures_of_the_readme_are_those_of_their_pages(claimed: str, page: str, proof: str) -> None:
    said = re.search(claimed, (ROOT / "README.md").read_text(encoding="utf-8"))
    shown = re.search(proof, find_page(page).read_text(encoding="utf-8"))
    assert said and shown and said.groups()[: len(shown.groups())] == shown.groups()


def test_the_readme_counts_the_causes() -> None:
    causes = [page for page in (DOCS / "causes").rglob("*.md") if page.name != "index.md"]
    assert "[%d causes](docs/causes/index.md)" % len(causes) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_picture_is_on_a_page_and_exists() -> None:
    shown = {
        (page.parent / found).resolve()
        for page in PAGES
        for found in _PICTURE.findall(page.read_text(encoding="utf-8"))
    }
    assert shown == {path.resolve() for path in (DOCS / "pictures").iterdir()}
