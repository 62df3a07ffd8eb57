"""From a job and its plan to the exact requests; parents of elements."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.errors import JobError
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.hpcpack.render import _START as START
from worldsize.wings.hpcpack.render import LONGEST_LINE, RequestSettings, parents, preview, requests
from worldsize.wings.hpcpack.settings import Share

RUN = "20261121-103158-417k3f"
PATHS = RunPaths("/mnt/app/runs/" + RUN)
SHARE = Share("\\\\head\\CcpSpoolDir\\app", "/app", "/mnt/app")


def plan(nodes: int = 2, **fields: Any) -> Plan:
    return Plan(RUN, "train", "lab", 1.0, 0, node_major_layout(nodes, 4), ("true",), {}, **fields)


def made(said: dict[str, Any] | None = None, nodes: int = 2, python: str = "python3", **fields: Any):
    return requests(RequestSettings(said or {}, SHARE, python), plan(nodes, **fields), PATHS)


def test_a_job_of_whole_nodes_with_an_agent_on_each() -> None:
    job, tasks = made()
    assert job == {
        "Name": "worldsize " + RUN,
        "UnitType": "Node",
        "AutoCalculateMin": "False",
        "AutoCalculateMax": "False",
        "MinNodes": "2",
        "MaxNodes": "2",
        "FailOnTaskFailure": "True",
        "RunUntilCanceled": "False",
    }
    assert tasks[1] == {
        "Name": "node-1",
        "CommandLine": "python3 -I -S -c %s /app/runs/%s --node-rank 1 --attempt-var WORLDSIZE_ATTEMPT --prepare"
        % (shlex.quote(START), RUN),
        "WorkDirectory": "/app",
        "MinNodes": "1",
        "MaxNodes": "1",
        "IsRerunnable": "False",
    }
    assert [task["Name"] for task in tasks] == ["node-0", "node-1"]
    assert max(len(task["CommandLine"]) for task in tasks) < LONGEST_LINE


def test_what_a_job_says() -> None:
    said = {
        "nodes": ("N2", "N1"),
        "node_group": ("GPU", "Linux"),
        "node_group_op": "Union",
        "exclusive": True,
        "priority": "Highest",
        "project": "p 17",
        "template": "Gold",
        "job_properties": {"HoldUntil": "1/1/2030"},
    }
    job, tasks = made(said, timeout=100.5, grace=10)
    assert job["RequestedNodes"] == "N2,N1" and job["NodeGroups"] == "GPU,Linux" and job["NodeGroupOp"] == "Union"
    assert (job["IsExclusive"], job["Priority"], job["Project"]) == ("True", "Highest", "p 17")
    assert (job["JobTemplate"], job["HoldUntil"], job["RuntimeSeconds"]) == ("Gold", "1/1/2030", "171")
    assert [task["RequiredNodes"] for task in tasks] == ["N2", "N1"]


def test_more_names_than_nodes_pin_none() -> None:
    job, tasks = made({"nodes": "N1, N2,N3"})
    assert job["RequestedNodes"] == "N1,N2,N3" and not any("RequiredNodes" in task for task in tasks)


@pytest.mark.parametrize(
    ("endpoint", "launcher", "pinned"),
    [
        ("N2:29400", "torchrun", "N2"),
        ("n2.corp.local", "torchrun", "n2"),
        ("N2:29400", "direct", None),
        ("10.0.0.2:29400", "torchrun", None),
    ],
)
def test_the_first_node_is_where_torchrun_meets(endpoint: str, launcher: str, pinned: str | None) -> None:
    _, tasks = made({"rdzv_endpoint": endpoint}, launcher=launcher)
    assert tasks[0].get("RequiredNodes") == pinned and "RequiredNodes" not in tasks[1]


def test_named_nodes_keep_their_order_wherever_torchrun_meets() -> None:
    _, tasks = made({"rdzv_endpoint": "N2", "nodes": ("N1", "N2")}, launcher="torchrun")
    assert [task["RequiredNodes"] for task in tasks] == ["N1", "N2"]


def test_what_a_shell_would_split_is_quoted() -> None:
    share = Share("", "/my app", "/mnt/app")
    _, tasks = requests(RequestSettings({}, share, "/opt/my env/python"), plan(1), PATHS)
    assert tasks[0]["CommandLine"].startswith("'/opt/my env/python' -I -S -c 'import ")
    assert tasks[0]["CommandLine"].split("' ")[2].startswith("'/my app/runs/%s" % RUN)


@pytest.mark.parametrize(
    ("name", "instead"), [("MinNodes", "instance_count"), ("name", "run's id"), ("Priority", "hpcpack.priority")]
)
def test_properties_that_have_their_own_place_are_refused(name: str, instead: str) -> None:
    with pytest.raises(JobError) as caught:
        made({"job_properties": {name: "7"}})
    assert caught.value.where == "hpcpack.job_properties.%s" % name and instead in str(caught.value)


def test_the_preview_is_all_of_it_in_order() -> None:
    text = preview(made({"nodes": ("N1", "N2")}), "https://head/hpc", "CORP\\me", ", its certificate not verified")
    lines = text.splitlines()
    assert lines[0].startswith("# https://head/hpc, as CORP\\me, its certificate not verified;")
    assert [line for line in lines if line.startswith("POST")] == [
        "POST /jobs",
        "POST /jobs/{job}/tasks",
        "POST /jobs/{job}/tasks",
        "POST /jobs/{job}/submit",
    ]
    assert "    RequestedNodes=N1,N2" in lines and "    RequiredNodes=N2" in lines


@pytest.mark.parametrize(
    ("before", "at_once", "expected"),
    [
        ([], 1, ()),
        ([7], 1, (7,)),
        ([7, 8], 1, (7, 8)),
        ([7], 2, ()),
        ([7, 8], 2, (7,)),
        ([7, 8, 9], 2, (7, 8)),
        ([7, 8, 9], None, ()),
    ],
)
def test_an_element_waits_for_those_before_it(
    before: list[int], at_once: int | None, expected: tuple[int, ...]
) -> None:
    assert parents(before, at_once) == expected


@given(st.integers(1, 5), st.lists(st.booleans(), min_size=1, max_size=12), st.randoms())
def test_never_more_at_once_whatever_is_cancelled(at_once: int, cancelled: list[bool], random: Any) -> None:
    """Elements start when their parents are over; waiting ones may be cancelled, running ones end, in any order."""
    number = len(cancelled)
    waits_for = [set(parents(list(range(element)), at_once)) for element in range(number)]
    over: set[int] = set()
    running: set[int] = set()
    while len(over) < number:
        running |= {each for each in range(number) if each not in over and waits_for[each] <= over}
        assert 0 < len(running) <= at_once
        waiting = [each for each in range(number) if each not in over | running and cancelled[each]]
        ended = random.choice(waiting) if waiting and random.random() < 0.5 else random.choice(sorted(running))
        running.discard(ended)
        over.add(ended)


def test_a_long_array_names_the_last_hundred() -> None:
    assert parents(list(range(1000)), 4) == tuple(range(897, 997))
