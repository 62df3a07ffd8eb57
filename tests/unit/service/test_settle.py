"""Elements that ended alike before they began share one result; whoever has one keeps it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from worldsize.common.atomic_files import write_json
from worldsize.plan.array import is_untouched
from worldsize.plan.plan import Plan
from worldsize.plan.rank_layout import node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import write_secrets
from worldsize.service.runs.settle import record_common_result
from worldsize.service.runs.status import read_result
from worldsize.state.records import Reason, RunState, Status
from worldsize.state.result import result

CANCELLED = Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, 130, "Slurm: cancelled by ada")


@pytest.fixture
def elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[RunPaths]:
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path))
    found = [RunPaths(str(tmp_path / "runs" / "r" / ("r_%d" % number))) for number in range(4)]
    for paths in found:
        os.makedirs(paths.root)
    return found


@pytest.fixture
def plan() -> Plan:
    return Plan("r_0", "train", "c", 1.0, 0, node_major_layout(1, 1), ("true",), {})


def ids(elements: list[RunPaths]) -> list[str]:
    found = []
    for paths in elements:
        with open(paths.result) as file:
            found.append(json.load(file)["summary"]["id"])
    return found


def test_one_file_for_all(elements: list[RunPaths], plan: Plan) -> None:
    record_common_result("r", elements, plan, CANCELLED)
    assert [read_result(paths) for paths in elements] == [CANCELLED] * 4
    assert len({os.stat(paths.result).st_ino for paths in elements}) == 1
    assert ids(elements) == ["r"] * 4
    assert [os.listdir(paths.root) for paths in elements] == [["result.json"]] * 4


def test_a_single_one_has_its_own(elements: list[RunPaths], plan: Plan) -> None:
    record_common_result("r", elements[2:3], plan, CANCELLED)
    assert ids(elements[2:3]) == ["r_2"]


@pytest.mark.parametrize("first", [0, 2])
def test_who_has_a_result_keeps_it(elements: list[RunPaths], plan: Plan, first: int) -> None:
    succeeded = Status(RunState.SUCCEEDED, None, 0)
    write_json(elements[first].result, result(plan._replace(run_id="r_%d" % first), succeeded))
    record_common_result("r", elements, plan, CANCELLED)
    found = [read_result(paths) for paths in elements]
    assert found.pop(first) == succeeded
    assert found == [CANCELLED] * 3


@pytest.mark.parametrize("code", [errno.EPERM, errno.EMLINK])
def test_without_links_each_has_its_own(
    elements: list[RunPaths], plan: Plan, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    record_common_result("r", elements, plan, CANCELLED)
    assert [read_result(paths) for paths in elements] == [CANCELLED] * 4
    assert ids(elements)[1:] == ["r_1", "r_2", "r_3"]


@pytest.mark.parametrize("sign", ["attempt-0", "result.json", "handle.json", "cancel.json", "batch.log"])
def test_what_happened_to_an_element_shows(elements: list[RunPaths], sign: str) -> None:
    root = elements[0].root
    for name in ("plan.json", "job.yml", "record.json", "launcher-toy.py"):
        write_json(os.path.join(root, name), {})
    assert is_untouched(root)
    write_json(os.path.join(root, sign), {})
    assert not is_untouched(root)
    assert not is_untouched(root + "-gone")


@pytest.mark.parametrize("count", [1, 4])
def test_who_can_read_the_end_finds_no_secrets(
    elements: list[RunPaths], plan: Plan, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`worldsize run` returned while the process that had written the result had its secrets still to remove."""
    link, seen = os.link, []

    def look_and_link(source: str, target: str) -> None:
        seen.append(sorted(os.listdir(os.path.dirname(target))))
        link(source, target)

    for paths in elements:
        write_secrets(paths, {"environment": {"HF_TOKEN": "x"}})
    monkeypatch.setattr(os, "link", look_and_link)
    record_common_result("r", elements[:count], plan._replace(hidden=("environment",)), CANCELLED)
    assert len(seen) == count and not any("secrets.json" in names for names in seen)
