"""Tests of several runs in one submission, and of runs that wait for others, on any compute."""

from __future__ import annotations

import os
from typing import Any

from worldsize_conformance.driver import wait_for
from worldsize_conformance.place import Place

SAY = "echo $WORLDSIZE_ARRAY_INDEX of $WORLDSIZE_ARRAY_COUNT, $SLURM_ARRAY_TASK_ID: ${{inputs.lr}} > outputs/said-$RANK"
PATIENT = "touch outputs/up; until test -e %s/go; do sleep 0.05; done"


def submit_job(place: Place, command: str, world: str = "1x1", **keys: Any) -> str:
    place.job(command, world, code=".", **keys)
    return place.submit("job.yml")


def wait_for_code(place: Place, run: str) -> int:
    return place("wait", run, "--timeout", str(place.target.patience), timeout=place.target.patience + 30).code


def states(place: Place, array: str) -> dict[str, int]:
    found: dict[str, int] = place.json("status", array)["states"]
    return found


def element(array: str, number: int) -> str:
    return "%s_%d" % (array, number)


def test_each_element_has_its_inputs_its_place_and_its_directory(place: Place) -> None:
    place.require("array")
    place.write("data/part", "of the code")
    values = {"lr": [0.1, 0.01], "n": [1, 2]}
    array = submit_job(place, SAY + "; cat data/part > outputs/part", "2x2", inputs={"lr": 0, "n": 0}, matrix=values)
    assert wait_for_code(place, array) == 0
    assert states(place, array) == {"SUCCEEDED": 4}
    for number, lr in enumerate((0.1, 0.1, 0.01, 0.01)):
        for rank in range(4):
            said = place.read_output(element(array, number), "said-%d" % rank)
            assert said == "%d of 4, %d: %s\n" % (number, number, lr)
        assert place.read_output(element(array, number), "part") == "of the code"
    rows = place.json("list", array)
    assert [row["inputs"] for row in rows] == [{"lr": lr, "n": n} for lr in (0.1, 0.01) for n in (1, 2)]
    assert {row["compute"] for row in rows} == {place.target.name}


def test_the_first_failing_element_gives_the_code(place: Place) -> None:
    place.require("array")
    array = submit_job(place, "exit ${{inputs.code}}", inputs={"code": 0}, matrix={"code": [0, 4, 0, 5]})
    assert wait_for_code(place, array) == 4
    assert states(place, array) == {"SUCCEEDED": 2, "FAILED": 2}
    status = place.status(element(array, 3))
    assert (status["state"], status["reason"], status["exit_code"]) == ("FAILED", "EXIT_CODE", 5)
    assert place.json("list", "-n", "1")[0]["states"] == {"SUCCEEDED": 2, "FAILED": 2}


def test_no_more_at_once_than_asked_and_each_ends_alone(place: Place) -> None:
    place.require("array")
    array = submit_job(place, PATIENT % place.node_path(place.project), count=3, at_once=1)
    wait_for(lambda: place.has_outputs(element(array, 0), "up"), place.target.patience)
    wait_for(lambda: states(place, array) == {"QUEUED": 2, "RUNNING": 1})
    assert place.status(element(array, 2))["state"] == "QUEUED"
    place.ok("cancel", element(array, 1))
    wait_for(lambda: place.status(element(array, 1))["state"] == "CANCELLED", place.target.patience)
    place.ok("cancel", element(array, 0))
    wait_for(lambda: place.has_outputs(element(array, 2), "up"), place.target.patience)
    place.write("go", "")
    assert wait_for_code(place, array) == 130
    assert states(place, array) == {"CANCELLED": 2, "SUCCEEDED": 1}


def test_all_are_cancelled_together(place: Place) -> None:
    place.require("array")
    array = submit_job(place, PATIENT % place.node_path(place.project), count=4, at_once=2)
    wait_for(lambda: place.has_outputs(element(array, 1), "up"), place.target.patience)
    place.ok("cancel", array)
    assert wait_for_code(place, array) == 130
    assert states(place, array) == {"CANCELLED": 4}
    assert not os.path.exists(place.path(element(array, 3), "outputs", "up"))
    assert "already" in place.ok("cancel", array).err


def test_logs_of_all_are_followed_to_their_end(place: Place) -> None:
    place.require("array")
    array = submit_job(place, "echo element $SLURM_ARRAY_TASK_ID", count=3)
    result = place("logs", "-f", array, timeout=place.target.patience + 30)
    assert result.code == 0
    assert sorted(result.lines) == ["%d/0:0: element %d" % (number, number) for number in range(3)]


def test_a_run_starts_after_others(place: Place) -> None:
    place.require("after", "array")
    array = submit_job(place, PATIENT % place.node_path(place.project), count=2)
    after = place.ok("submit", "--after", array, "--", "true").out.strip()
    last = place.ok("submit", "--after", after, "--count", "2", "--", "true").out.strip()
    wait_for(lambda: place.has_outputs(element(array, 1), "up"), place.target.patience)
    assert (place.status(after)["state"], states(place, last)) == ("QUEUED", {"QUEUED": 2})
    place.write("go", "")
    assert wait_for_code(place, last) == 0
    assert place.status(after)["started"] >= place.status(array)["ended"]


def test_a_run_never_starts_after_one_that_failed(place: Place) -> None:
    place.require("after")
    run = submit_job(place, (PATIENT % place.node_path(place.project)) + "; exit 3")
    never = place.ok("submit", "--after", run, "--", "touch", "outputs/up").out.strip()
    later = place.ok("submit", "--after-any", run, "--", "true").out.strip()
    place.write("go", "")
    assert wait_for_code(place, later) == 0
    assert wait_for_code(place, run) == 3
    assert place.status(never)["state"] in ("FAILED", "QUEUED")
    place.ok("cancel", never)
    assert wait_for_code(place, never) in (1, 130)
    assert not os.path.exists(place.path(never, "outputs", "up"))


def test_setup_runs_in_each_elements_code(place: Place) -> None:
    place.require("array")
    place.write("env.sh", "export FOUND=yes\n")
    array = submit_job(place, "echo $FOUND > outputs/found", count=2, setup=["source ./env.sh"])
    assert wait_for_code(place, array) == 0
    assert [place.read_output(element(array, number), "found") for number in (0, 1)] == ["yes\n"] * 2
