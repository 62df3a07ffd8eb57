"""The pictures of benchmarks in the documentation are those of their results, and stand below their commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import draw_benchmarks as drawing

ROOT = Path(__file__).parents[4]


@pytest.fixture
def docs(tmp_path, monkeypatch):
    """A documentation with one picture, which was drawn by an unknown version of matplotlib."""
    monkeypatch.setattr(drawing, "ROOT", tmp_path)
    monkeypatch.setattr(drawing, "DOCS", tmp_path)
    monkeypatch.setattr(drawing, "COMMANDS", {"two": "worldsize bench job.yml -w 1x1,1x2"})
    for folder in ("bench", "pictures"):
        (tmp_path / folder).mkdir()
    result = {
        "kind": "job", "title": "job.yml", "unit": "runs/s", "scaling": "strong", "compute": "local", "created": 1,
        "worldsize": "1", "measurements": [{"world": [1, 1], "rate": 1.0}, {"world": [1, 2], "rate": 1.9}],
    }  # fmt: skip
    (tmp_path / "bench" / "two.json").write_text(json.dumps(result))
    mark = "<!-- matplotlib 0, charts %s -->\n" % drawing.digest(drawing.charts_of(drawing.read("two")))
    (tmp_path / "pictures" / "two.svg").write_text("<svg/>\n" + mark)
    (tmp_path / "page.md").write_text("```sh\nworldsize bench job.yml -w 1x1,1x2\n```\n\n![two](pictures/two.svg)\n")
    return tmp_path


def problems():
    return [*drawing.problems_of("two", drawing.COMMANDS["two"]), *drawing.strangers()]


def test_all_is_well(docs):
    assert problems() == []


def test_a_result_that_was_measured_again_makes_its_picture_old(docs):
    path = docs / "bench" / "two.json"
    path.write_text(path.read_text().replace("1.9", "1.7"))
    assert problems() == [
        "docs/pictures/two.svg is not the picture of docs/bench/two.json: python scripts/draw_benchmarks.py"
    ]


@pytest.mark.parametrize("picture", ["", "<svg/>\n"])
def test_a_picture_that_is_missing_or_made_by_hand_is_old(docs, picture):
    (docs / "pictures" / "two.svg").write_text(picture)
    assert len(problems()) == 1


def test_a_result_of_another_command_is_told(docs, monkeypatch):
    command = "worldsize bench job.yml -w 1x1,1x2,1x4"
    monkeypatch.setattr(drawing, "COMMANDS", {"two": command})
    (docs / "page.md").write_text(command + "\n![two](pictures/two.svg)\n")
    what = "docs/bench/two.json has measured 1x1,1x2, and the command says 1x1,1x2,1x4"
    assert problems() == [what + ": python scripts/draw_benchmarks.py --measure two"]


@pytest.mark.parametrize("text", ["", "![two](pictures/two.svg)", "worldsize bench job.yml -w 1x1,1x2" + "\n" * 40])
def test_a_page_must_show_the_command_and_below_it_the_picture(docs, text):
    (docs / "page.md").write_text(text)
    assert problems() == ["no page shows `worldsize bench job.yml -w 1x1,1x2` and below it pictures/two.svg"]


def test_files_that_no_command_makes_are_told(docs):
    (docs / "bench" / "old.json").write_text("{}")
    assert problems() == ["bench/old.json: scripts/draw_benchmarks.py has no command that makes it"]


def test_a_result_that_is_missing_is_told(docs):
    (docs / "bench" / "two.json").unlink()
    assert problems() == ["docs/bench/two.json is missing: python scripts/draw_benchmarks.py --measure two"]


@pytest.mark.heavy
def test_the_pictures_of_the_documentation_are_those_of_their_results():
    environ = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "scripts/draw_benchmarks.py", "--check"]
    drawn = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True)
    assert drawn.returncode == 0, drawn.stdout + drawn.stderr
