"""The simulator's nodes: told in both generations, in groups, offline, dead; and what the head node says of itself."""

from __future__ import annotations

import os
import re
import socket
import time

import pytest
from hpcpack.simulator import Simulator, until, values

pytestmark = pytest.mark.exhaustive

SLEEP = "sleep 60 || true"


def test_typed_nodes(hpcpack: Simulator) -> None:
    nodes = hpcpack.ask("GET", "/cluster/nodes")
    assert [node["Name"] for node in nodes] == hpcpack.node_names == ["cn01", "cn02", "cn03", "cn04"]
    first = hpcpack.node("CN01")
    assert first == nodes[0]
    assert (first["State"], first["Health"], first["Cores"], first["Sockets"]) == ("Online", "OK", 4, 1)
    assert first["MemorySize"] > 100 and "ComputeNodes" in first["Groups"]
    assert "LinuxNode" in first["InstalledServiceRoles"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"names": "cn02, CN04,none"}, ["cn02", "cn04"]),
        ({"group": "computenodes", "state": "Online"}, ["cn01", "cn02", "cn03", "cn04"]),
        ({"group": "HeadNodes"}, []),
        ({"state": "Offline"}, []),
        ({"health": "OK", "names": "cn01"}, ["cn01"]),
    ],
    ids=str,
)
def test_some_nodes(hpcpack: Simulator, query: dict[str, str], found: list[str]) -> None:
    assert [node["Name"] for node in hpcpack.ask("GET", "/cluster/nodes", params=query)] == found


def test_nodes_of_jobs_and_jobs_of_nodes(hpcpack: Simulator) -> None:
    job = hpcpack.submitted({"CommandLine": SLEEP, "RequiredNodes": "cn03"})
    hpcpack.wait_task(job, 1, "Running")
    assert [node["Name"] for node in hpcpack.ask("GET", "/cluster/nodes?jobs=%d,none" % job)] == ["cn03"]
    there = hpcpack.ask("GET", "/jobs?nodeNames=cn03,none&rowsPerRead=0")
    assert [values(row["Properties"])["Id"] for row in there] == [str(job)]
    assert hpcpack.ask("GET", "/jobs?nodeNames=cn02") == []


def test_nodes_of_2016(hpcpack: Simulator) -> None:
    answer = hpcpack.call("GET", "/nodes", params={"$filter": "NodeState eq Online", "rowsPerRead": 3})
    assert len(answer.json()) == 3 and answer.headers["x-ms-continuation-queryId"]
    one = values(hpcpack.ask("GET", "/nodes/cn02"))
    assert (one["Id"], one["Name"], one["State"], one["NumberOfCores"]) == ("2", "cn02", "Online", "4")
    rows = hpcpack.ask("GET", "/nodes?properties=name,id&sortNodesBy=Id&asc=false")
    assert rows[0] == {"Properties": [{"Name": "Name", "Value": "cn04"}, {"Name": "Id", "Value": "4"}]}
    groups = hpcpack.ask("GET", "/nodes/groups")
    assert {values(row["Properties"])["Name"] for row in groups} >= {"HeadNodes", "ComputeNodes"}
    assert hpcpack.ask("GET", "/nodes/groups/ComputeNodes") == hpcpack.node_names


@pytest.mark.parametrize(
    "path", ["/nodes/none", "/nodes/groups/none", "/cluster/nodes/none", "/cluster/nodeGroups/none"]
)
def test_unknown_names(hpcpack: Simulator, path: str) -> None:
    assert hpcpack.call("GET", path).status_code == 404


def test_groups(hpcpack: Simulator) -> None:
    group = {"Name": "fast ones", "Description": "", "Managed": False}
    assert hpcpack.ask("POST", "/cluster/nodeGroups", {"Name": "fast ones"}) == group
    assert hpcpack.call("POST", "/cluster/nodeGroups", {"Name": "Fast Ones"}).status_code == 409
    path = "/cluster/nodeGroups/fast%20ones"
    added = {"GroupName": "fast ones", "Operation": "add", "NodeNames": ["cn02", "cn03"]}
    assert hpcpack.ask("PATCH", path + "/nodes", added) == ["cn02", "cn03"]
    removed = {"Operation": "remove", "NodeNames": ["cn02"]}
    assert hpcpack.ask("PATCH", path + "/nodes", removed) == ["cn03"] == hpcpack.ask("GET", path + "/nodes")
    changed = hpcpack.ask("PUT", path, {"Name": "fast", "Description": "text"})
    assert changed == {"Name": "fast", "Description": "text", "Managed": False}
    assert "fast" in hpcpack.node("cn03")["Groups"]
    hpcpack.ask("DELETE", "/cluster/nodeGroups/fast")
    assert "fast" not in hpcpack.node("cn03")["Groups"]
    assert hpcpack.call("DELETE", "/cluster/nodeGroups/ComputeNodes").status_code == 400


def test_an_offline_node_ends_what_it_runs_and_takes_no_more(hpcpack: Simulator) -> None:
    path = os.path.join(hpcpack.share, "go-%d" % time.monotonic_ns())
    line = "until test -e /app/%s; do sleep 0.05; done" % os.path.basename(path)
    job = hpcpack.submitted({"CommandLine": line, "RequiredNodes": "cn01"})
    hpcpack.wait_task(job, 1, "Running")
    hpcpack.operate("cn01", "takeOffline")
    assert hpcpack.node("cn01")["State"] == "Draining"
    later = hpcpack.submitted({"CommandLine": "true", "RequiredNodes": "cn01"})
    hpcpack.wait(later, "Queued")
    assert hpcpack.task(job)["State"] == "Running"
    open(path, "w").close()
    assert hpcpack.wait(job)["State"] == "Finished"
    until(lambda: hpcpack.node("cn01")["State"], lambda state: state == "Offline", 20)
    assert {"Name": "Offline", "Value": 1} in hpcpack.ask("GET", "/cluster/nodes/stats/state")
    until(lambda: hpcpack.job(later)["PendingReason"], lambda why: "nodes" in why, 20)
    hpcpack.operate("cn01", "bringOnline")
    assert hpcpack.wait(later)["State"] == "Finished"


@pytest.mark.parametrize("again", [False, True])
def test_a_node_that_dies(hpcpack: Simulator, again: bool) -> None:
    """A task that may run again does so elsewhere; another fails, and says why."""
    job = hpcpack.submitted({"CommandLine": SLEEP, "IsRerunnable": again}, RequestedNodes="cn02,cn03")
    place = hpcpack.wait_task(job, 1, "Running")["AllocatedNodes"]
    hpcpack.kill_node(place)
    if again:
        hpcpack.wait_task(job, 1, "Running")
        task = hpcpack.task(job)
        assert task["AllocatedNodes"] in {"cn02", "cn03"} - {place}
        assert task["RequeueCount"] == "1"
        return
    assert hpcpack.wait(job)["State"] == "Failed"
    assert "Node %s became unreachable" % place in hpcpack.task(job)["ErrorMessage"]
    assert {"Name": "Error", "Value": 1} in hpcpack.ask("GET", "/cluster/nodes/stats/health")
    assert [each["Metrics"] for each in metrics(hpcpack, "HPCCoresInUse") if each["NodeName"] == place] == [{}]
    hpcpack.operate(place, "start")
    until(lambda: hpcpack.node(place)["Health"], lambda health: health == "OK", 20)
    ended = hpcpack.submitted({"CommandLine": "hostname", "RequiredNodes": place})
    assert hpcpack.wait(ended)["State"] == "Finished"
    assert hpcpack.task(ended)["Output"] == place + "\n"


def test_stop_and_reboot(hpcpack: Simulator) -> None:
    hpcpack.operate("cn04", "stop")
    until(lambda: hpcpack.node("cn04")["State"], lambda state: state == "Offline", 20)
    hpcpack.operate("cn04", "start")
    until(lambda: hpcpack.node("cn04"), lambda node: (node["State"], node["Health"]) == ("Online", "OK"), 20)
    job = hpcpack.submitted({"CommandLine": SLEEP, "RequiredNodes": "cn04", "IsRerunnable": False})
    hpcpack.wait_task(job, 1, "Running")
    hpcpack.operate("cn04", "reboot")
    assert hpcpack.wait(job)["State"] == "Failed"
    until(lambda: hpcpack.node("cn04"), lambda node: (node["State"], node["Health"]) == ("Online", "OK"), 20)
    assert hpcpack.call("POST", "/cluster/nodes/cn04/operations/explode").status_code == 400
    log = hpcpack.ask("GET", "/cluster/operations?nodeNames=cn04&withDetail=true&limit=1")
    assert (log[0]["Name"], log[0]["Operator"]) == ("reboot node cn04", hpcpack.user)
    assert hpcpack.ask("GET", "/cluster/operations/" + log[0]["Id"]) == log[0]
    assert log[0]["Entries"][0]["Severity"] == "Information"


def metrics(hpcpack: Simulator, names: str) -> list[dict[str, dict[str, float]]]:
    found: list[dict[str, dict[str, float]]] = hpcpack.ask("GET", "/cluster/nodes/metrics?metricNames=" + names)
    return found


def test_metrics(hpcpack: Simulator) -> None:
    job = hpcpack.submitted(
        {"CommandLine": SLEEP, "RequiredNodes": "cn01"},
        UnitType="Node",
        AutoCalculateMin=False,
        AutoCalculateMax=False,
    )
    hpcpack.wait_task(job, 1, "Running")
    found = {str(each["NodeName"]): each["Metrics"] for each in metrics(hpcpack, "HPCCoresInUse,HPCCpuUsage")}
    assert found["cn01"] == {"HPCCoresInUse": 4, "HPCCpuUsage": 100} and found["cn02"]["HPCCoresInUse"] == 0
    assert hpcpack.call("GET", "/cluster/nodes/metrics").status_code == 400
    names = [each["Name"] for each in hpcpack.ask("GET", "/cluster/metrics/definitions")]
    since, until_ = "2020-01-01T00:00:00Z", "2100-01-01T00:00:00"
    for name in names:
        path = "/cluster/metrics/history/%s?fromTime=%s&toTime=%s" % (name, since, until_)
        assert hpcpack.ask("GET", path)["Instances"][0]["Values"]
    assert hpcpack.call("GET", "/cluster/metrics/history/%s" % names[0]).status_code == 400
    days = hpcpack.ask("GET", "/cluster/metrics/jobs")["Instances"]
    assert {each["InstanceName"] for each in days} >= {"Number of finished jobs", "Number of canceled jobs"}


def test_a_time_that_is_empty_is_no_time(hpcpack: Simulator) -> None:
    since = "fromTime=2020-01-01T00:00:00Z"
    for path in ("/cluster/operations", "/cluster/operations/first", "/cluster/metrics/history/HPCSchedulerNodes"):
        for query in ("fromTime=&toTime=2100-01-01T00:00:00Z", since + "&toTime="):
            assert hpcpack.call("GET", "%s?%s" % (path, query)).status_code == 400
    assert hpcpack.call("GET", "/cluster/operations?" + since).status_code == 200


def test_a_body_of_null_is_no_list(hpcpack: Simulator) -> None:
    for path in ("/jobs", "/jobs/%d/tasks" % hpcpack.new_job("true")):
        assert hpcpack.call("POST", path, content="null").status_code == 400
        assert hpcpack.call("POST", path, content="[]").status_code < 300


def test_the_cluster(hpcpack: Simulator) -> None:
    assert re.fullmatch(r"6(\.\d+){3}", hpcpack.ask("GET", "/cluster/version"))
    assert hpcpack.ask("GET", "/cluster/activeHeadNode") == socket.gethostname()
    assert hpcpack.ask("GET", "/cluster/info/dateTimeFormat") == "M/d/yyyy h:mm:ss tt"
    assert hpcpack.ask("GET", "/jobs/templates") == ["Default"]
    assert hpcpack.ask("GET", "/cluster/operations/first")["Node"] == "(cluster)"
