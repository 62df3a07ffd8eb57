"""Paths, values and output in UTF-8 where the locale is C, as in a scheduler's job or a bare container."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver import Cli, unfolded

C = {"LC_ALL": "C", "LANG": ""}
FOLDER = "ação กรุงเทพ"

SCRIPT = """\
import os
import sys
from pathlib import Path

rank = os.environ["RANK"]
Path("outputs", "saída-ผล-" + rank).write_text(sys.argv[1] + os.environ["NOME"], encoding="utf-8")
print("adição", sys.argv[1])
print("posto", rank, "บวก", file=sys.stderr)
"""

JOB = """\
display_name: adição
command: python 'soma-รวม.py' "${{inputs.cidade}}"
code: .
inputs:
  cidade: São Paulo
environment_variables:
  NOME: เชียงใหม่
resources:
  instance_count: 2
"""


@pytest.fixture
def folder(cli: Cli) -> str:
    place = Path(cli.project, FOLDER)
    place.mkdir()
    (place / "soma-รวม.py").write_text(SCRIPT, encoding="utf-8")
    (place / "job-งาน.yml").write_text(JOB, encoding="utf-8")
    return str(place)


def test_a_job_and_all_that_is_read_of_it(cli: Cli, folder: str) -> None:
    result = cli("run", "job-งาน.yml", "--fold", "off", cwd=folder, **C)
    assert result.code == 0, result
    lines = [line for line in unfolded(result.lines) if line.startswith(("adição", "posto"))]
    assert sorted(lines) == ["adição São Paulo"] * 2 + ["posto 0 บวก", "posto 1 บวก"]
    run = cli.latest()
    for rank in "01":
        assert Path(cli.path(run, "outputs", "saída-ผล-" + rank)).read_text(encoding="utf-8") == "São Pauloเชียงใหม่"
    assert "adição" in cli.ok("list", **C).out and "adição" in cli.ok("status", run, **C).out
    assert "posto 1 บวก" in cli.ok("logs", run, "--rank", "1", **C).out
    assert {each["path"] for each in cli.json("outputs", run, **C)} == {"outputs/saída-ผล-0", "outputs/saída-ผล-1"}
    assert cli.json("describe", run, **C)["name"] == "adição"
    cli.ok("fetch", run, "saída-*", "--to", "cópia", cwd=folder, **C)
    assert sorted(path.name for path in Path(folder, "cópia").rglob("saída-*")) == ["saída-ผล-0", "saída-ผล-1"]


def test_a_failure_names_the_script_and_the_message(cli: Cli, folder: str) -> None:
    Path(folder, "falha-ล้มเหลว.py").write_text("raise ValueError('não há amostra')\n", encoding="utf-8")
    result = cli("run", "-w", "1x1", "--", "python", "falha-ล้มเหลว.py", cwd=folder, **C)
    assert result.code == 1 and "ValueError: não há amostra" in result.err, result
    assert "falha-ล้มเหลว.py:1" in result.err and "não há amostra" in cli("why", cli.latest(), **C).out


def test_a_mistake_in_a_file_of_that_name(cli: Cli, folder: str) -> None:
    Path(folder, "erro-ผิด.yml").write_text("command: x\nentradas: {}\n", encoding="utf-8")
    result = cli("run", "erro-ผิด.yml", cwd=folder, **C)
    assert result.code == 2 and "erro-ผิด.yml:2: " in result.err and "Traceback" not in result.err, result
