"""An array whose compute says no, or which is cancelled or interrupted before its compute has accepted it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from driver import lend_bundle

from worldsize.common.atomic_files import read_json, write_json
from worldsize.compute.base import Handle, Submission
from worldsize.compute.local.compute import LocalCompute
from worldsize.errors import SubmitAgain, SubmitRejected
from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.job import Job, Output
from worldsize.plan.array import is_untouched
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import Progress, SubmissionRequest
from worldsize.service.runs.array import RunArray
from worldsize.service.submission.plan_job import plan_job
from worldsize.service.submission.submit import start


@pytest.fixture
def request_of_three(tmp_path: Path) -> SubmissionRequest:
    environ = {"WORLDSIZE_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    lend_bundle(environ["WORLDSIZE_HOME"])
    (tmp_path / "code").mkdir()
    job = Job(command="true", code=str(tmp_path / "code"), count=3, outputs={"model": Output()})
    return SubmissionRequest(job, load_config(str(tmp_path), environ), None, environ, str(tmp_path))


def runs(request: SubmissionRequest) -> list[str]:
    folder = os.path.join(request.config.home, "runs")
    return [name for name in os.listdir(folder) if not name.startswith(".")]


def refusing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> list[Sequence[Submission]]:
    asked: list[Sequence[Submission]] = []

    def submit(self: LocalCompute, submissions: Sequence[Submission]) -> list[Handle]:
        asked.append(submissions)
        assert all(is_untouched(each.paths.root) for each in submissions)
        raise error

    monkeypatch.setattr(LocalCompute, "submit", submit)
    return asked


def test_a_compute_gets_all_in_one_call_and_what_it_refuses_has_failed(
    request_of_three: SubmissionRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = refusing(monkeypatch, SubmitRejected("no such account"))
    with pytest.raises(SubmitRejected):
        start(request_of_three, Progress())
    (submissions,) = asked
    (name,) = runs(request_of_three)
    assert [each.plan.run_id for each in submissions] == ["%s_%d" % (name, k) for k in range(3)]
    assert [each.plan.array.element for each in submissions if each.plan.array] == [0, 1, 2]
    assert len({each.preview for each in submissions}) == 1
    array = RunArray(RunPaths(os.path.join(request_of_three.config.home, "runs", name)), {})
    assert array.states() == {"FAILED": 3}
    assert {status.reason for status in array.statuses()} == {"SUBMIT_REJECTED"}
    assert read_json(array.paths.result)["summary"]["states"] == {"FAILED": 3}


def test_where_trying_again_is_safe_nothing_is_left(
    request_of_three: SubmissionRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing(monkeypatch, SubmitAgain("the controller is away"))
    with pytest.raises(SubmitAgain):
        start(request_of_three, Progress())
    assert runs(request_of_three) == []


def test_interrupted_before_it_is_complete_nothing_is_left(request_of_three: SubmissionRequest) -> None:
    class Impatient(Progress):
        def step(self, what: str, done: int, total: int) -> None:
            if what == "elements" and done == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(request_of_three, Impatient())
    assert runs(request_of_three) == []


def test_cancelled_before_it_is_submitted(request_of_three: SubmissionRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = refusing(monkeypatch, AssertionError("submitted all the same"))
    paths = start(request_of_three, Progress(), lambda paths: write_json(paths.cancel, {}))
    array = RunArray(paths, {})
    assert array.states() == {"CANCELLED": 3} and not asked
    assert array[1].look().message == "cancelled before it was submitted"


def test_while_it_is_prepared_and_when_whoever_did_is_gone(request_of_three: SubmissionRequest) -> None:
    seen: list[dict[str, int]] = []

    def submitting(paths: RunPaths) -> None:
        seen.append(RunArray(paths, {}).states())
        os.unlink(paths.preparing)
        os.symlink("999999:1:%s" % os.uname().nodename, paths.preparing)
        seen.append(RunArray(paths, {}).states())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(request_of_three, Progress(), submitting)
    assert seen == [{"PREPARING": 3}, {"LOST": 3}]


def test_an_element_needs_little_on_disk(request_of_three: SubmissionRequest) -> None:
    held: list[list[str]] = []

    def submitting(paths: RunPaths) -> None:
        root = os.path.join(paths.root, paths.run_id + "_2")
        held.append(sorted(os.listdir(root)))
        assert os.stat(os.path.join(root, "job.yml")).st_nlink == 3
        assert os.listdir(paths.outputs) == ["model"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(request_of_three, Progress(), submitting)
    assert held == [["agent.pyz", "code.json", "job.yml", "plan.json", "record.json"]]


@pytest.mark.parametrize(
    ("capabilities", "what", "hint"),
    [
        (("steps",), "inside an allocation all 3 runs start at once", "leave the allocation's shell"),
        ((), "on local all 3 runs start at once", ""),
    ],
)
def test_a_compute_that_starts_all_at_once_is_told_of(
    request_of_three: SubmissionRequest,
    monkeypatch: pytest.MonkeyPatch,
    capabilities: Sequence[str],
    what: str,
    hint: str,
) -> None:
    monkeypatch.setattr(LocalCompute, "capabilities", frozenset(capabilities))
    (notice,) = (each for each in plan_job(request_of_three, 1.0).notices if each.where == "at_once")
    assert notice.what == what and (notice.hint or "").endswith(hint) and bool(notice.hint) == bool(hint)
