"""What is made of the elements of an array that ended before they began, where the compute tells of all at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from worldsize.common.atomic_files import write_json, write_text
from worldsize.plan.array import Array, element_root, handles_file
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.array_status import ArrayElements
from worldsize.service.runs.status import read_result
from worldsize.state.records import Observation, Reason, RunState

NUMBER = 4
ARRAY = Array("r", "train", "c", 1.0, 1, 1, NUMBER)


class Cancelled:
    """A compute all of whose jobs were cancelled in its queue."""

    capabilities = frozenset(("exec",))

    def observe(self, handles: Sequence[Any]) -> list[Observation]:
        return [Observation("ended", Reason.CANCELLED_BY_USER, 1, "cancelled by ada", over=True)] * len(handles)


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path))
    found = RunPaths(str(tmp_path / "runs" / "r"))
    for number in range(NUMBER):
        element = RunPaths(element_root(found.root, number))
        os.makedirs(element.root)
        plan = Plan(element.run_id, "train", "c", 1.0, 0, node_major_layout(1, 1), ("true",), {})
        write_text(element.plan, plan.to_json())
        write_json(element.record, {})
    write_json(handles_file(found.root), [{"type": "stub", "job": number} for number in range(NUMBER)])
    return found


def look(paths: RunPaths) -> list[str]:
    elements = ArrayElements(paths, ARRAY, {})
    elements.compute = Cancelled()  # type: ignore[assignment]
    return [status.state for status in elements.statuses()]


def settled(paths: RunPaths) -> list[str | None]:
    found = (read_result(RunPaths(element_root(paths.root, number))) for number in range(NUMBER))
    return [status.state if status else None for status in found]


def test_all_are_settled_at_the_first_look(paths: RunPaths) -> None:
    states = look(paths)
    assert set(states) <= RunState.FINAL and len(set(states)) == 1
    assert settled(paths) == states == look(paths)
    assert read_result(paths) is not None


@pytest.mark.parametrize("damaged", range(NUMBER))
def test_a_damaged_one_is_lost_and_the_others_are_none_the_worse(paths: RunPaths, damaged: int) -> None:
    write_text(RunPaths(element_root(paths.root, damaged)).plan, "{")
    states = look(paths)
    others = [state for number, state in enumerate(states) if number != damaged]
    assert set(others) <= RunState.FINAL - {RunState.LOST} and len(set(others)) == 1
    if damaged == 0:  # the plan of another that is read serves for all
        assert states[0] == RunState.LOST and settled(paths)[0] is None


def test_who_has_begun_meanwhile_has_a_result_of_its_own(paths: RunPaths) -> None:
    begun = RunPaths(element_root(paths.root, 2))
    os.makedirs(begun.events_dir)
    os.makedirs(begun.exit_dir)
    look(paths)
    files = [RunPaths(element_root(paths.root, number)).result for number in range(NUMBER)]
    assert [os.path.samefile(files[0], file) for file in files] == [True, True, False, True]
