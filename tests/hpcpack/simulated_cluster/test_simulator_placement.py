"""Where the simulator runs what: limits, named nodes, groups, waiting, and what can never run."""

from __future__ import annotations

from typing import Any

import pytest
from hpcpack.simulator import Simulator, until

pytestmark = pytest.mark.exhaustive

SLEEP = "sleep 60 || true"
FIXED = {"AutoCalculateMin": False, "AutoCalculateMax": False}
NODES: dict[str, Any] = {"UnitType": "Node", **FIXED}


def held(hpcpack: Simulator, job: int) -> list[str]:
    hpcpack.wait(job, "Running")
    return hpcpack.job(job)["AllocatedNodes"].split(",")


def test_exactly_as_many_nodes_as_asked_for(hpcpack: Simulator) -> None:
    job = hpcpack.submitted(SLEEP, SLEEP, SLEEP, MinNodes=3, MaxNodes=3, **NODES)
    assert held(hpcpack, job) == ["cn01", "cn02", "cn03"]
    waits = hpcpack.submitted(SLEEP, SLEEP, MinNodes=2, MaxNodes=2, **NODES)
    fits = hpcpack.submitted(SLEEP, MinNodes=1, MaxNodes=1, **NODES)
    assert held(hpcpack, fits) == ["cn04"]
    assert hpcpack.wait(waits, "Queued")["PendingReason"] != ""
    hpcpack.ask("POST", "/jobs/%d/finish" % job)
    assert held(hpcpack, waits) == ["cn01", "cn02"]


def test_limits_count_only_where_they_are_not_calculated(hpcpack: Simulator) -> None:
    limits = {"UnitType": "Node", "MinNodes": 1, "MaxNodes": 1}
    calculated = hpcpack.submitted(SLEEP, SLEEP, SLEEP, **limits)
    assert len(held(hpcpack, calculated)) == 3
    hpcpack.ask("POST", "/jobs/%d/cancel?forced=true" % calculated)
    hpcpack.wait(calculated)
    fixed = hpcpack.submitted("hostname", "hostname", "hostname", **limits, **FIXED)
    assert hpcpack.wait(fixed)["State"] == "Finished"
    assert {hpcpack.task(fixed, each)["AllocatedNodes"] for each in (1, 2, 3)} == {"cn01"}


def test_named_nodes(hpcpack: Simulator) -> None:
    tasks = [{"CommandLine": "hostname", "RequiredNodes": name} for name in ("cn04", "CN02")]
    job = hpcpack.submitted(*tasks, MinNodes=2, MaxNodes=2, RequestedNodes="cn02,cn03,cn04", **NODES)
    assert hpcpack.wait(job)["State"] == "Finished"
    assert [hpcpack.task(job, each)["Output"] for each in (1, 2)] == ["cn04\n", "cn02\n"]
    excluded = hpcpack.submitted("hostname", MinNodes=1, MaxNodes=1, ExcludedNodes="cn01", **NODES)
    hpcpack.wait(excluded)
    assert hpcpack.task(excluded)["Output"] == "cn02\n"


@pytest.mark.parametrize(("how", "found"), [("Intersect", {"cn02"}), ("Union", {"cn01", "cn02", "cn03"})])
def test_groups(hpcpack: Simulator, how: str, found: set[str]) -> None:
    for group, names in (("left", ["cn01", "cn02"]), ("right", ["cn02", "cn03"])):
        hpcpack.ask("POST", "/cluster/nodeGroups", {"Name": group})
        hpcpack.ask("PATCH", "/cluster/nodeGroups/%s/nodes" % group, {"Operation": "add", "NodeNames": names})
    limits = {"MinNodes": 1, "MaxNodes": 4, "NodeGroups": "left, right", "NodeGroupOp": how}
    job = hpcpack.submitted(*[SLEEP] * 4, **limits, **NODES)
    assert set(held(hpcpack, job)) == found


def test_tasks_that_name_a_node_come_first(hpcpack: Simulator) -> None:
    """Else those that do not might sit on that node until the others are there."""
    tasks = ["until test -e /app/met; do sleep 0.05; done", {"CommandLine": "touch /app/met", "RequiredNodes": "cn01"}]
    job = hpcpack.submitted(*tasks, MinNodes=2, MaxNodes=2, **NODES)
    assert hpcpack.wait(job)["State"] == "Finished"
    cores = hpcpack.submitted(*[{"CommandLine": "hostname", "RequiredNodes": node} for node in ("cn03", "cn02")])
    assert hpcpack.wait(cores)["State"] == "Finished"
    assert [hpcpack.task(cores, each)["Output"] for each in (1, 2)] == ["cn03\n", "cn02\n"]


def test_cores(hpcpack: Simulator) -> None:
    """A node of 4 cores has room for four tasks of one core, or for one of two and two of one."""
    job = hpcpack.submitted({"CommandLine": "echo $CCP_NUMCPUS $CCP_NODES_CORES", "MinCores": 2, "MaxCores": 2})
    hpcpack.wait(job)
    assert hpcpack.task(job)["Output"] == "2 1 cn01 2\n"
    wide = hpcpack.submitted({"CommandLine": "echo $CCP_NODES_CORES; hostname", "MinCores": 6, "MaxCores": 6})
    hpcpack.wait(wide)
    assert hpcpack.task(wide)["Output"] == "2 cn01 4 cn02 2\ncn01\n"
    many = hpcpack.submitted(*[SLEEP] * 5, MinCores=5, MaxCores=5, **FIXED)
    assert held(hpcpack, many) == ["cn01", "cn02"]


def test_sockets_and_exclusive(hpcpack: Simulator) -> None:
    shared = hpcpack.submitted(SLEEP)
    assert held(hpcpack, shared) == ["cn01"]
    socket = hpcpack.submitted(SLEEP, UnitType="Socket")
    assert held(hpcpack, socket) == ["cn02"]
    alone = hpcpack.submitted(SLEEP, IsExclusive=True)
    assert held(hpcpack, alone) == ["cn03"]
    beside = hpcpack.submitted(SLEEP, SLEEP, SLEEP, SLEEP)
    assert set(held(hpcpack, beside)) == {"cn01", "cn04"}


def test_priority(hpcpack: Simulator) -> None:
    first = hpcpack.submitted(*[SLEEP] * 4, MinNodes=4, MaxNodes=4, **NODES)
    hpcpack.wait(first, "Running")
    low, high = (
        hpcpack.submitted(*[SLEEP] * 4, MinNodes=4, MaxNodes=4, Priority=priority, **NODES)
        for priority in ("Lowest", "Highest")
    )
    hpcpack.wait(low, "Queued")
    hpcpack.wait(high, "Queued")
    hpcpack.ask("POST", "/jobs/%d/cancel?forced=true" % first)
    hpcpack.wait(high, "Running")
    assert hpcpack.job(low)["State"] == "Queued"


def test_tasks_that_depend_on_others(hpcpack: Simulator) -> None:
    tasks = [
        {"CommandLine": "sleep 0.2; date +%s%N", "Name": "first"},
        {"CommandLine": "date +%s%N", "DependsOn": "First"},
    ]
    job = hpcpack.submitted(*tasks)
    assert hpcpack.wait(job)["State"] == "Finished"
    early, late = (int(hpcpack.task(job, each)["Output"]) for each in (1, 2))
    assert early < late


@pytest.mark.parametrize("end", ["finish", "cancel"])
def test_jobs_that_wait_for_others(hpcpack: Simulator, end: str) -> None:
    parent = hpcpack.submitted(SLEEP)
    child = hpcpack.submitted("true", ParentJobIds=parent)
    until(lambda: hpcpack.job(child)["PendingReason"], lambda why: "job %d" % parent in why, 20)
    assert hpcpack.job(parent)["ChildJobIds"] == str(child)
    hpcpack.wait(parent, "Running")
    hpcpack.ask("POST", "/jobs/%d/%s" % (parent, end))
    assert hpcpack.wait(child)["State"] == "Finished"


@pytest.mark.parametrize(
    ("task", "job", "why"),
    [
        ({"CommandLine": "x" * 481}, {}, "480"),
        ({"CommandLine": " "}, {}, "empty"),
        ({"RequiredNodes": "cn99"}, {}, "cn99"),
        ({"RequiredNodes": "cn01"}, {"RequestedNodes": "cn02"}, "cn01"),
        ({}, {"RequestedNodes": "cn01,none"}, "none"),
        ({}, {"NodeGroups": "HeadNodes"}, "at least 1 core"),
        ({}, {**NODES, "MinNodes": 5, "MaxNodes": 5}, "at least 5 nodes"),
        ({}, {**NODES, "MinNodes": 2, "MaxNodes": 1}, "MaxNodes"),
        ({"MinNodes": 2, "MaxNodes": 2}, {**NODES, "MinNodes": 1, "MaxNodes": 1}, "more nodes"),
        ({"RequiredNodes": "cn01,cn02"}, {**NODES, "MinNodes": 1, "MaxNodes": 1}, "by name"),
        ({"MinCores": 3, "MaxCores": 2}, {}, "MaxCores"),
        ({}, {"UnitType": "GPU"}, "GPU"),
        ({"DependsOn": "nobody"}, {}, "nobody"),
        ({"RuntimeSeconds": 20}, {"RuntimeSeconds": 10}, "run time"),
        ({}, {"JobTemplate": "Gold"}, "Gold"),
        ({}, {"ParentJobIds": "999999"}, "999999"),
        ({"Type": "ParametricSweep", "StartValue": 3, "EndValue": 1}, {}, "sweep"),
    ],
    ids=str,
)
def test_what_can_never_run_is_told_after_the_submission(
    hpcpack: Simulator, task: dict[str, object], job: dict[str, object], why: str
) -> None:
    number = hpcpack.submitted({"CommandLine": "true", **task}, **job)
    found = hpcpack.wait(number)
    assert (found["State"], why in found["ErrorMessage"]) == ("Failed", True), found["ErrorMessage"]
    assert (found["StartTime"], hpcpack.task(number)["State"]) == ("", "Failed")


def test_a_line_of_480_characters_runs(hpcpack: Simulator) -> None:
    job = hpcpack.submitted("true " + "x" * 475)
    assert hpcpack.wait(job)["State"] == "Finished"
