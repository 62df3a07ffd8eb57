"""An array's file, its elements' ids, what its elements' states make of it, and finding them by what a user types."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from worldsize.agent.startup.array_element import complete_element
from worldsize.errors import NotFound, UsageError
from worldsize.plan import array as arrays
from worldsize.plan.array import Array, array_of, element_root, split_element
from worldsize.plan.handle import read_handle
from worldsize.plan.run_paths import RunPaths
from worldsize.state.array import array_result, array_status, count_states, overall_state
from worldsize.state.records import Failure, Status
from worldsize.state.result import status_of
from worldsize.store.find import find_run_paths, is_array, list_ids
from worldsize.store.runs import create_run
from worldsize.store.summaries import final_summary

NOW = 1795257118.0
ARRAY = Array("20261121-103158-417k3f", "t", "local", NOW, 1, 2, 3, 2, ({"lr": 0.1}, {"lr": 0.2}, {"lr": "x"}))


def ended(state: str, code: int = 0, started: float = 1.0, when: float = 2.0, reason: str | None = None) -> Status:
    failure = Failure(reason, "went wrong") if reason else None
    return Status(state, reason, code, "went wrong" if reason else "", failure, started, when)


def make(home: str, elements: int = 3) -> RunPaths:
    paths = create_run(home, now=lambda: NOW, array=True)
    array = ARRAY._replace(run_id=paths.run_id, elements=elements)
    for number in range(elements):
        os.mkdir(element_root(paths.root, number))
        with open(RunPaths(element_root(paths.root, number)).plan, "w") as file:
            file.write("{}")
    with open(arrays.array_file(paths.root), "w") as file:
        file.write(array.to_json())
    return paths


def test_the_file_comes_back_as_it_was() -> None:
    assert Array.from_value(json.loads(ARRAY.to_json())) == ARRAY
    assert Array.from_value(json.loads(ARRAY._replace(at_once=None, values=()).to_json())).values == ()


@pytest.mark.parametrize("value", [None, [], {}, {"version": 2}, {"version": 1}, {"version": 1, "values": []}])
def test_what_is_no_array_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        Array.from_value(value)


@pytest.mark.parametrize(
    ("run_id", "split"),
    [
        ("20261121-103158-417k3f_0", ("20261121-103158-417k3f", 0)),
        ("417k_12", ("417k", 12)),
        ("a_b_3", ("a_b", 3)),
        ("20261121-103158-417k3f", None),
        ("_3", None),
        ("a_", None),
        ("a_03", None),
        ("a_-1", None),
        ("a_³", None),
    ],
)
def test_ids_of_elements(run_id: str, split: tuple[str, int] | None) -> None:
    assert split_element(run_id) == split


def test_an_element_knows_its_array_and_a_run_of_its_own_has_none() -> None:
    assert array_of(RunPaths("/runs/a/a_3")) == ("/runs/a", 3)
    assert array_of(RunPaths("/runs/b/a_3")) is None
    assert array_of(RunPaths("/runs/a")) is None
    assert element_root("/runs/a", 3) == "/runs/a/a_3"


def test_an_elements_own_handle_wins_over_its_arrays(tmp_path) -> None:
    paths = make(str(tmp_path))
    element = RunPaths(element_root(paths.root, 1))
    assert read_handle(element) is None
    with open(arrays.handles_file(paths.root), "w") as file:
        json.dump([{"type": "slurm", "job": "7_%d" % number} for number in range(3)], file)
    assert read_handle(element) == {"type": "slurm", "job": "7_1", "run_dir": element.root}
    with open(element.handle, "w") as file:
        json.dump({"type": "local", "pid": 3}, file)
    assert read_handle(element) == {"type": "local", "pid": 3, "run_dir": element.root}


def test_cancelled_with_its_array_or_alone(tmp_path) -> None:
    paths = make(str(tmp_path))
    first, second = (RunPaths(element_root(paths.root, number)) for number in (0, 1))
    open(first.cancel, "w").close()
    assert (arrays.is_cancelled(first), arrays.is_cancelled(second)) == (True, False)
    open(paths.cancel, "w").close()
    assert arrays.is_cancelled(second)


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        ({"PREPARING": 3}, "PREPARING"),
        ({"QUEUED": 3}, "QUEUED"),
        ({"QUEUED": 2, "PREPARING": 1}, "QUEUED"),
        ({"QUEUED": 2, "STARTING": 1}, "RUNNING"),
        ({"QUEUED": 2, "SUCCEEDED": 1}, "RUNNING"),
        ({"FAILED": 2, "RUNNING": 1}, "RUNNING"),
        ({"CANCELLED": 2, "STOPPING": 1}, "STOPPING"),
        ({"RUNNING": 2, "STOPPING": 1}, "RUNNING"),
        ({"SUCCEEDED": 3}, "SUCCEEDED"),
        ({"SUCCEEDED": 2, "CANCELLED": 1}, "CANCELLED"),
        ({"SUCCEEDED": 1, "CANCELLED": 1, "LOST": 1}, "LOST"),
        ({"SUCCEEDED": 1, "FAILED": 1, "LOST": 1}, "FAILED"),
    ],
)
def test_the_state_of_the_whole(states: dict[str, int], whole: str) -> None:
    assert overall_state(states) == whole


@pytest.mark.parametrize(
    ("states", "whole"),
    [
        ({"SUCCEEDED": 1, "FAILED": 2, "LOST": 1}, "SUCCEEDED"),
        ({"SUCCEEDED": 1, "FAILED": 2, "QUEUED": 1}, "RUNNING"),
        ({"SUCCEEDED": 1, "FAILED": 1, "CANCELLED": 1}, "CANCELLED"),
        ({"FAILED": 2, "LOST": 1}, "FAILED"),
    ],
)
def test_one_measured_trial_is_enough_for_a_search(states: dict[str, int], whole: str) -> None:
    assert overall_state(states, search=True) == whole


def test_a_search_ends_as_its_first_failing_trial_where_none_was_measured() -> None:
    search = ARRAY._replace(search={"metric": "m", "goal": "max", "config": "c.json"})
    failed = [ended("FAILED", 7, 0.5, 9.0, "EXIT_CODE"), ended("FAILED", 1, 3.0, 4.0, "LEFT_OUT"), ended("LOST", 1)]
    assert array_status(search, failed)[:3] == ("FAILED", "EXIT_CODE", 7)
    assert array_status(search, [failed[0], ended("SUCCEEDED"), failed[2]])[:3] == ("SUCCEEDED", None, 0)
    with pytest.raises(ValueError, match="kind of search is unknown"):
        Array.from_value(json.loads(ARRAY._replace(search={"metric": 3}).to_json()))
    assert Array.from_value(json.loads(search.to_json())) == search and "search" not in json.loads(ARRAY.to_json())


def test_the_whole_ends_as_its_first_failing_element() -> None:
    statuses = [ended("SUCCEEDED"), ended("FAILED", 7, 0.5, 9.0, "EXIT_CODE"), ended("FAILED", 9, 3.0, 4.0, "SIGNAL")]
    assert list(count_states(statuses).items()) == [("SUCCEEDED", 1), ("FAILED", 2)]
    status = array_status(ARRAY, statuses)
    assert (status.state, status.reason, status.exit_code, status.started, status.ended) == (
        "FAILED", "EXIT_CODE", 7, 0.5, 9.0,
    )  # fmt: skip
    assert status.message == ARRAY.run_id + "_1: went wrong"
    on_its_way = array_status(ARRAY, [ended("SUCCEEDED"), Status("RUNNING", started=5.0), Status("QUEUED")])
    assert (on_its_way.state, on_its_way.exit_code, on_its_way.started) == ("RUNNING", None, 1.0)


def test_its_result_is_a_row_of_a_list(tmp_path) -> None:
    statuses = [ended("SUCCEEDED"), ended("CANCELLED", 130), ended("SUCCEEDED")]
    result = array_result(ARRAY, statuses)
    path = str(tmp_path / "result.json")
    with open(path, "w") as file:
        json.dump(result, file)
    row = final_summary(path)
    assert row is not None
    assert (row.id, row.state, row.exit_code, row.states) == (
        ARRAY.run_id, "CANCELLED", 130, {"SUCCEEDED": 2, "CANCELLED": 1},
    )  # fmt: skip
    assert status_of(result).state == "CANCELLED"


def test_found_by_what_a_user_types(tmp_path, monkeypatch) -> None:
    home = str(tmp_path / "home")
    paths = make(home)
    run_id = paths.run_id
    assert list_ids(home) == [run_id] and is_array(paths)
    assert find_run_paths(home, None).root == find_run_paths(home, run_id[-6:]).root == paths.root
    for text in (run_id + "_2", run_id[:15] + "_2", run_id[-6:] + "_2", element_root(paths.root, 2)):
        found = find_run_paths(home, text)
        assert found.root == element_root(paths.root, 2) and found.run_id == run_id + "_2", text
    assert find_run_paths(home, paths.root).root == paths.root
    with pytest.raises(NotFound, match="has no element 3"):
        find_run_paths(home, run_id + "_3")
    with pytest.raises(NotFound):
        find_run_paths(home, "zzz_1")
    single = create_run(home, now=lambda: NOW + 1)
    open(single.plan, "w").close()
    with pytest.raises(NotFound):
        find_run_paths(home, single.run_id + "_0")
    with pytest.raises(UsageError, match="names 2 runs"):
        find_run_paths(home, "2026_0")
    monkeypatch.chdir(tmp_path)
    os.makedirs(tmp_path / "copy_1")
    (tmp_path / "copy_1" / "plan.json").write_text("{}")
    assert find_run_paths(home, "copy_1").root == str(tmp_path / "copy_1")


def test_an_element_gets_all_that_its_array_has_and_keeps_what_it_has(tmp_path) -> None:
    paths = make(str(tmp_path))
    element = RunPaths(element_root(paths.root, 0))
    for path, text in (("code/a.py", "a"), ("code/sub/b.py", "b"), ("inrank/hook.py", "h"), ("outputs/m/x", "x")):
        os.makedirs(os.path.dirname(os.path.join(paths.root, path)), exist_ok=True)
        with open(os.path.join(paths.root, path), "w") as file:
            file.write(text)
    os.makedirs(os.path.join(paths.code, "empty"))
    os.symlink("sub", os.path.join(paths.code, "link"))
    complete_element(paths, element)
    assert os.path.samefile(os.path.join(element.code, "sub", "b.py"), os.path.join(paths.code, "sub", "b.py"))
    assert os.path.isdir(os.path.join(element.code, "empty"))
    assert os.readlink(os.path.join(element.code, "link")) == "sub"
    assert os.path.samefile(os.path.join(element.code, "outputs"), element.outputs)
    assert os.path.samefile(os.path.join(element.code, "logs"), element.user_logs)
    assert os.listdir(element.inrank) == ["hook.py"]
    mine = os.path.join(element.outputs, "m", "x")
    assert not os.path.samefile(mine, os.path.join(paths.outputs, "m", "x"))
    for directory in element.directories():
        assert os.path.isdir(directory)
    with open(mine, "w") as file:
        file.write("mine")
    os.unlink(os.path.join(element.code, "a.py"))
    complete_element(paths, element)
    with open(mine) as file:
        assert file.read() == "mine"
    assert os.path.exists(os.path.join(element.code, "a.py"))


def test_code_is_copied_where_it_cannot_be_linked(tmp_path, monkeypatch) -> None:
    paths = make(str(tmp_path))
    element = RunPaths(element_root(paths.root, 0))
    with open(os.path.join(paths.code, "a.py"), "w") as file:
        file.write("a")

    def refuse(*args: object) -> None:
        raise OSError(31, "Too many links")

    monkeypatch.setattr(os, "link", refuse)
    complete_element(paths, element)
    with open(os.path.join(element.code, "a.py")) as file:
        assert file.read() == "a"
