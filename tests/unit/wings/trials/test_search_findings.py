"""What is wrong with a search, found before anything is created."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from worldsize.jobspec.job import Job
from worldsize.service.request import KeyOrigins
from worldsize.wings.trials.job import make_search


class _Compute:
    name = "lab"

    def __init__(self, *capabilities: str) -> None:
        self.capabilities = frozenset(capabilities)


def found(code: str | None, *capabilities: str, name: str = "ds.json") -> list[str]:
    job = Job(command="true", code=code, autotune={"config": name})
    compute = cast("Any", _Compute(*capabilities))
    origins = KeyOrigins("job.yml", {"autotune": 3})
    return [each.what for each in make_search(job).find_problems(job, compute, origins)]


def test_trials_that_would_start_at_once_are_refused(tmp_path: Path) -> None:
    (tmp_path / "ds.json").write_text("{}")
    assert found(str(tmp_path), "array") == [] and found("https://example.org/code", "array") == []
    assert found(str(tmp_path), "exec", "steps") == ["inside an allocation all trials would start at once"]
    assert found(str(tmp_path), "exec") == ["on lab all trials would start at once"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("[]", "does not contain a JSON object"),
        ("{", "does not contain a JSON object"),
        ("[" * 10**5, "does not contain a JSON object"),
        ("\xff", "does not contain a JSON object"),
    ],
)
def test_the_configuration_is_a_json_object(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "ds.json").write_text(text, encoding="latin-1")
    assert what in found(str(tmp_path), "array")[0]


def test_the_configuration_is_a_file_of_the_code(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ds.json")
    for code in (str(tmp_path), None, str(tmp_path / "none")):
        (what,) = found(code, "array")
        assert what.startswith("there is no ds.json in ")
