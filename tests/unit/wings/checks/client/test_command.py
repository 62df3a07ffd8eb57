"""`worldsize check`: its words, its exit codes, and what it prints; the run itself is another test's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from in_process import InProcess

from worldsize.cli.check_results import CheckResults
from worldsize.state.check_rows import BAD, OK, WARNING, CheckRow
from worldsize.wings.checks import nodes_run

ROW = CheckRow("node1", "files.space", "disk", "3 GB free", OK)


class Checked:
    """The command line, of which a run finds `rows`; `requests` has what was submitted."""

    def __init__(self, root: Path) -> None:
        self.cli = InProcess(str(root))
        self.rows: tuple[CheckRow, ...] = (ROW,)
        self.requests: list[Any] = []

    def run(self, request: Any, timeout: float | None) -> CheckResults:
        self.requests.append(request)
        return CheckResults("20260101-000000-000abc", 0.5, ("node1",), self.rows)

    def asked(self) -> Any:
        return self.requests[-1].check["asked"]


@pytest.fixture
def checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checked:
    found = Checked(tmp_path)
    monkeypatch.setattr(nodes_run, "_run_on_nodes", found.run)
    return found


@pytest.mark.parametrize(("verdict", "code"), [(OK, 0), (WARNING, 0), (BAD, 1)])
def test_exit_codes(checked: Checked, verdict: str, code: int) -> None:
    checked.rows = (ROW._replace(verdict=verdict),)
    done = checked.cli("check")
    assert done.code == code and done.out.startswith(verdict)
    assert done.out.splitlines()[-1].endswith("1 row: 1 %s (0.5 s on 1 node)" % verdict)
    done = checked.cli("check", "-o", "json")
    assert done.code == code and json.loads(done.out)["verdict"] == verdict


def test_a_job_file(checked: Checked) -> None:
    checked.cli.write("data.txt", "")
    checked.cli.write("job.yml", "command: python a.py ${{inputs.d}}\ncode: .\ndisplay_name: mnist\n"
                      "inputs: {d: {type: uri_file, path: data.txt}}\n"
                      "distribution: {type: pytorch, process_count_per_instance: 2}\n")  # fmt: skip
    checked.cli.write("a.py", "")
    assert checked.cli("check", "job.yml", "-w", "2x4", "--only", "gpu").code == 0
    request = checked.requests[-1]
    assert request.job.display_name == "check of mnist" and request.job.resources.instance_count == 2
    assert request.check["only"] and all(name.startswith("gpu.") for name in request.check["only"])
    assert checked.asked()["ranks"] == 4 and checked.asked()["framework"] == "pytorch"
    assert [key for key, _ in checked.asked()["paths"]] == ["inputs.d"]


def test_a_script_a_command_and_nothing(checked: Checked) -> None:
    checked.cli.write("sub/train.py", "")
    for words in (["sub/train.py"], ["--", "python", "sub/train.py"]):
        assert checked.cli("check", "-w", "1x2", *words).code == 0
        assert checked.requests[-1].job.display_name == "check of train"
        assert checked.asked()["python"] == "python" and checked.asked()["ranks"] == 2
    assert checked.cli("check").code == 0
    assert checked.requests[-1].job.resources.instance_count == 1


def test_rows_of_the_script_alone_need_no_node(checked: Checked) -> None:
    checked.cli.write("train.py", "")
    done = checked.cli("check", "train.py", "-w", "2x2", "--only", "script", "-o", "json")
    assert done.code == 0 and json.loads(done.out)["run"] is None and checked.requests == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--only", "gpus"], "did you mean 'gpu'?"),
        (["--skip", "nothing.of.it"], "there is no row"),
        (["missing.yml"], "missing.yml"),
        (["missing.py"], "missing.py: no such script"),
        (["-w", "0x1"], "no ranks"),
        (["--compute", "nowhere"], "there is no compute"),
        (["--exclude-bad"], "this machine"),
        (["--timeout", "soon"], "'soon' is not a number"),
        (["job.yml"], "no such file or directory"),
        (["job.yml", "--", "true"], "both a job file"),
    ],
)
def test_mistakes(checked: Checked, words: list[str], says: str) -> None:
    checked.cli.write("job.yml", "command: 'true'\ninputs: {d: {type: uri_file, path: gone.txt}}\n")
    done = checked.cli("check", *words)
    assert done.code == 2 and done.out == "" and says in done.err and checked.requests == []


def test_what_it_would_submit(checked: Checked) -> None:
    done = checked.cli("check", "-w", "2x1", "--dry-run")
    assert done.code == 0 and "check of nodes" in done.out and checked.requests == []


def test_a_check_that_comes_to_nothing(checked: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> CheckResults:
        raise nodes_run.CheckFailed(130)

    monkeypatch.setattr(nodes_run, "_run_on_nodes", fail)
    assert checked.cli("check").code == 130
