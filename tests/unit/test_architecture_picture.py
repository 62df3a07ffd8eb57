"""The picture of the packages in the documentation, and its table of wings, are those of the code."""

import subprocess
import sys
from pathlib import Path

import pytest
from scripts import wing_table

ROOT = Path(__file__).parents[2]
HEAD = "| wing | lines | what |\n| --- | --- | --- |\n"


@pytest.fixture
def table(tmp_path):
    """Writes a tree of wings with these numbers of lines; what `with_wings` makes of rows."""

    def make(rows, **wings):
        for name, lines in wings.items():
            folder = tmp_path / "worldsize" / "wings" / name
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text("#\n" * lines)
        page = "before\n" + wing_table.BEGIN + HEAD + rows + wing_table.END + "after\n"
        made = wing_table.with_wings(page, tmp_path / "worldsize")
        head, tail = "before\n" + wing_table.BEGIN + HEAD, wing_table.END + "after\n"
        assert made.startswith(head) and made.endswith(tail)
        return made[len(head) : -len(tail)].splitlines()[:-1], wing_table.unwritten(made)

    return make


def test_a_number_stays_until_it_is_off_by_more_than_a_fifth(table):
    rows = "| `far` | 1,000 | away | x | y |\n| `near` | 1,000 | by | x | y |\n"
    made, silent = table(rows, near=1190, far=1300)
    assert made == ["| `far` | 1,300 | away | x | y |", "| `near` | 1,000 | by | x | y |"]
    assert silent == ["worldsize_hpcpack_simulator"]


def test_a_new_wing_has_a_row_of_question_marks_and_one_that_is_gone_has_none(table):
    made, silent = table("| `gone` | 10 | away | x | y |\n", new=7)
    assert made == ["| `new` | 7 | ? | ? | ? |"] and "new" in silent


@pytest.mark.heavy
def test_picture_and_table_are_those_of_the_code():
    drawn = subprocess.run(
        [sys.executable, "scripts/draw_architecture.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert drawn.returncode == 0, drawn.stdout + drawn.stderr
