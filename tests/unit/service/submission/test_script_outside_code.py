"""A script that lies outside of the code, and one that the snapshot leaves out: which file is named, and the mend."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.jobspec.job import Job
from worldsize.service.request import KeyOrigins
from worldsize.service.submission.preflight import preflight
from worldsize.service.submission.run_directory import left_out_error


def findings(job: Job, origins: KeyOrigins) -> list[Any]:
    plan: Any = SimpleNamespace(launcher="direct", compute="local")
    compute: Any = SimpleNamespace(capabilities=frozenset(), check=lambda job, plan: [])
    facts: Any = SimpleNamespace(mapped=(), hosted=False)
    return [found for found in preflight(job, plan, compute, origins, facts) if found.level == "error"]


def command_line_job(code: Path, *words: str) -> Job:
    return Job(command=" ".join(words), argv=words, code=str(code), source="command line")


def test_a_script_above_the_code_is_said_to_lie_outside(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "x.py").write_text("")
    job = command_line_job(tmp_path / "sub", "python", "../x.py", "--lr", "1")
    (found,) = findings(job, KeyOrigins())
    assert found.what.startswith("../x.py is outside the code directory, %s" % (tmp_path / "sub"))
    assert found.hint.endswith("--code .. -- python x.py --lr 1")
    (found,) = findings(job, KeyOrigins(options={"code": "--code"}))
    assert found.hint.endswith("--code %s -- python x.py --lr 1" % tmp_path)


def test_of_a_job_file_its_key_is_named(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "x.py").write_text("")
    job = Job(command="python ../x.py", code=str(tmp_path / "sub"), source="job.yml")
    (found,) = findings(job, KeyOrigins("job.yml", {"command": 3}))
    assert found.where == "job.yml:3: command"
    assert "`code:` (%s)" % tmp_path in found.hint and found.hint.endswith("x.py")


def test_a_way_that_leads_back_into_the_code_is_inside(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "x.py").write_text("")
    assert findings(command_line_job(tmp_path, "python", "sub/../x.py"), KeyOrigins()) == []


def test_an_ignore_file_is_named_only_where_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    error = left_out_error(str(tmp_path), "sub/x.py")
    assert error.where == os.path.join(str(tmp_path), "sub/x.py") and "ignore" not in (error.hint or "")
    (tmp_path / ".gitignore").write_text("x.py\n")
    assert left_out_error(str(tmp_path), "sub/x.py").where == str(tmp_path / ".gitignore")


@pytest.mark.parametrize("code", ["/", "", "."])
def test_a_script_below_the_root_is_looked_for_no_further_than_that(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by reading: the folders above it were gone through without an end."""
    monkeypatch.chdir(tmp_path)
    assert left_out_error(code, "no-such-folder/x.py").where == os.path.join(code, "no-such-folder/x.py")
