"""What is found wrong before anything is submitted; nodes in both generations of the interface."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hpcpack_server import Asked, Reply, props, serving, several

from worldsize.compute.base import CheckResult
from worldsize.compute.capabilities import ComputeNode
from worldsize.errors import SubmitAgain, SubmitRejected
from worldsize.jobspec.job import Input, Job, Output
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.wings.hpcpack.node_commands import CommandJob
from worldsize.wings.hpcpack.preflight import check_head, check_lines, check_nodes, check_share
from worldsize.wings.hpcpack.render import RequestSettings
from worldsize.wings.hpcpack.reports import nodes, usages
from worldsize.wings.hpcpack.settings import Share


def plan(count: int = 2, **fields: Any) -> Plan:
    return Plan("-", "train", "lab", 1.0, 0, node_major_layout(count, 2), ("true",), {}, **fields)


def node(name: str, usable: bool = True, *groups: str) -> ComputeNode:
    return ComputeNode(
        name, "Online" if usable else "Offline", "", usable, "" if usable else "offline", ("LinuxNodes", *groups)
    )


CLUSTER = [node("N1", True, "GPU"), node("N2", True, "GPU"), node("N3", True, "CPU"), node("N4", False, "GPU")]


def found(
    said: dict[str, Any], count: int = 2, cluster: list[ComputeNode] = CLUSTER, **fields: Any
) -> list[CheckResult]:
    return list(check_nodes(cluster, said, plan(count, **fields)))


def words(results: list[CheckResult]) -> str:
    return "\n".join("%s %s: %s (%s)" % (each.level, each.where, each.what, each.hint) for each in results)


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ({}, 3),
        ({"nodes": ("n1", "N3")}, 2),
        ({"nodes": "N1,N2,N3"}, 2),
        ({"node_group": "gpu"}, 2),
        ({"node_group": ("GPU", "LinuxNodes")}, 2),
        ({"node_group": ("GPU", "CPU"), "node_group_op": "Union"}, 3),
    ],
)
def test_what_fits(said: dict[str, Any], count: int) -> None:
    assert found(said, count) == []


@pytest.mark.parametrize(
    ("said", "count", "level", "where", "says"),
    [
        ({"nodes": ("N1", "N22")}, 2, "error", "hpcpack.nodes", "there is no node N22 (did you mean 'N2'?)"),
        ({"nodes": ("N1", "N4")}, 2, "error", "hpcpack.nodes", "node N4 starts no tasks: offline"),
        ({"nodes": ("N1",)}, 2, "error", "hpcpack.nodes", "1 nodes are named, and the run has 2"),
        ({"node_group": "GPUS"}, 1, "error", "hpcpack.node_group", "no node is in a group GPUS (did you mean 'GPU'?)"),
        ({"node_group": ("GPU", "CPU")}, 1, "error", "resources.instance_count", "there are 0"),
        ({}, 5, "error", "resources.instance_count", "5 nodes are asked for, and there are 4"),
        ({}, 4, "notice", "resources.instance_count", "3 of the nodes that it may run on accept tasks now"),
        ({"node_group": "CPU"}, 2, "error", "resources.instance_count", "there is 1"),
    ],
)
def test_what_does_not(said: dict[str, Any], count: int, level: str, where: str, says: str) -> None:
    results = found(said, count)
    assert any(each.level == level and each.where == where for each in results) and says in words(results)


def test_where_torchrun_is_to_meet() -> None:
    meets = {"launcher": "torchrun"}
    assert found({"rdzv_endpoint": "N2:29400"}, **meets) == []
    assert "there is no node N9 to meet on" in words(found({"rdzv_endpoint": "N9"}, **meets))
    assert "not one of the named nodes" in words(found({"rdzv_endpoint": "N3", "nodes": ("N1", "N2")}, **meets))
    assert found({"rdzv_endpoint": "N9"}) == [], "nobody meets there"


def test_nodes_that_are_not_linux_are_spoken_of() -> None:
    head = ComputeNode("HEAD", "Online", groups=("HeadNodes", "ComputeNodes"))
    results = found({}, cluster=[*CLUSTER, head])
    assert [each.level for each in results] == ["notice"] and "HEAD, which is no Linux node" in words(results)
    assert found({"node_group": "LinuxNodes"}, cluster=[*CLUSTER, head]) == []
    assert found({}, 1, [head]) == [], "a cluster that does not group its nodes so"


# the share


def share_checks(share: Share | None, runs_dir: str | None = None, job: Job | None = None) -> list[CheckResult]:
    return list(check_share(share, runs_dir, job or Job("true")))


def test_a_share_that_holds_everything(tmp_path: Path) -> None:
    share = Share("", "/app", str(tmp_path))
    (tmp_path / "data").mkdir()
    job = Job("x", inputs={"d": Input(path=str(tmp_path / "data")), "u": Input(path="azureml:x:1"), "n": 1})
    job = job._replace(outputs={"o": Output(path=str(tmp_path / "o")), "p": Output()})
    assert share_checks(share, str(tmp_path / "runs"), job) == []
    assert os.listdir(tmp_path) == ["data"], "nothing is left of the probe"


@pytest.mark.parametrize(
    ("share", "says"),
    [
        (None, "lacks the nodes' path of the share"),
        (Share("x", "app"), "lacks the nodes' path of the share"),
        (Share("\\\\head\\app", "/app"), "not mounted here"),
        (Share("", "/app", "/no/such/mount"), "not mounted here: /no/such/mount"),
    ],
)
def test_a_share_that_is_not_there(share: Share | None, says: str) -> None:
    (result,) = share_checks(share)
    assert result.level == "error" and says in result.what and result.hint


def test_what_does_not_lie_on_the_share(tmp_path: Path) -> None:
    share = Share("", "/app", str(tmp_path))
    job = Job("x", inputs={"d": Input(path="/home/me/data")}, outputs={"o": Output(path="/home/me/out")})
    results = share_checks(share, "/home/me/runs", job)
    assert [(each.level, each.where) for each in results[:3]] == [
        ("error", "runs_dir"),
        ("error", "inputs.d.path"),
        ("error", "outputs.o.path"),
    ]
    assert "copy it to the share (%s)" % tmp_path in words(results)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (r"\\head\app\data\x", "name it as this machine does: %s/data/x"),
        (r"Z:\data\x", r"Z:\data\x is a Windows path: name the file as this machine does, below the share (%s)"),
    ],
)
def test_an_input_that_is_named_as_on_windows(tmp_path: Path, path: str, says: str) -> None:
    share = Share(r"\\HEAD\app", "/app", str(tmp_path))
    (result,) = share_checks(share, job=Job("true", inputs={"d": Input(path="/home/me/" + path)}))
    assert result.where == "inputs.d.path" and result.hint == says % tmp_path


def test_what_a_file_server_may_not_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a cifs mount with dir_mode=0777 and without mfsymlinks."""
    mkdir = os.mkdir

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "symlink", refuse)
    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(os, "mkdir", lambda path, mode=0o777: (mkdir(path, mode), os.chmod(path, 0o777)))
    results = share_checks(Share("", "/app", str(tmp_path)))
    assert [each.level for each in results] == ["notice"] * 3
    for says in ("stores no permissions", "mfsymlinks", "no hard links"):
        assert says in words(results)
    assert not os.listdir(tmp_path)


def test_a_share_that_we_may_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)
    (result,) = share_checks(Share("", "/app", str(tmp_path)))
    assert result.level == "error" and result.what == "the share cannot be written: Permission denied"


def test_the_length_of_a_command_line(tmp_path: Path) -> None:
    def lines(node: str, run_id: str = "-") -> list[CheckResult]:
        asked = RequestSettings({}, Share("", node, "/mnt/app"), "python3")
        return list(check_lines(asked, plan()._replace(run_id=run_id), "/mnt/app/runs"))

    assert lines("/app") == []
    (result,) = lines("/" + "a" * 200)
    assert result.level == "error" and "HPC Pack takes 480: python3 -I -S -c " in result.what
    assert lines("/" + "a" * 80) == [] and lines("/" + "a" * 80, "-_0") != [], "an element's is longer"


# the head node


def head_checks(answer: Any, said: dict[str, Any], **access: Any) -> list[CheckResult]:
    with serving(answer) as server:
        return list(check_head(lambda: server.head(3, **access), said, plan(1)))


def typed(name: str, **values: object) -> dict[str, object]:
    return {"Name": name, "State": "Online", "Health": "OK", "Cores": 8, "MemorySize": 28672, "Groups": [], **values}


def test_one_request_where_no_template_is_named() -> None:
    with serving([Reply(body=[typed("N1")])]) as server:
        assert list(check_head(lambda: server.head(3), {}, plan(1))) == []
        assert server.lines() == ["GET /hpc/cluster/nodes"]


def test_a_certificate_that_is_not_looked_at_is_spoken_of() -> None:
    (result,) = head_checks(lambda asked: Reply(body=[typed("N1")]), {}, verify=False)
    assert result.level == "notice" and "not verified" in result.what and result.where == "verify"


def test_an_answer_of_either_generation_that_says_nothing_of_nodes_is_an_error() -> None:
    for generation in ("2016", "2019"):
        for body in ({"Name": "N1"}, [{"Properties": "N1"}], ["N1"]):
            (result,) = head_checks(lambda asked, body=body: Reply(body=body), {}, generation=generation)
            assert result.level == "error" and "HPC Pack: " in result.what, (generation, body)


def test_a_template_that_does_not_exist() -> None:
    def answer(asked: Asked) -> Reply:
        return Reply(body=["Default", "Gold"] if asked.path.endswith("/templates") else [typed("N1")])

    assert head_checks(answer, {"template": "gold"}) == []
    (result,) = head_checks(answer, {"template": "Golden"})
    assert (result.level, result.where, result.hint) == ("error", "hpcpack.template", "did you mean 'Gold'?")


@pytest.mark.parametrize(
    ("reply", "level", "says"),
    [
        (Reply(401), "error", "wrong user or password"),
        (Reply(403, "not for you"), "error", "not for you"),
        (Reply(503, "starting"), "notice", "nothing was checked there"),
        (Reply(0), "notice", "nothing was checked there"),
    ],
)
def test_a_head_that_does_not_let_us_in(reply: Reply, level: str, says: str) -> None:
    (result,) = head_checks(lambda asked: reply, {})
    assert (result.level, says in result.what) == (level, True)


def test_nodes_of_both_generations() -> None:
    def answer(asked: Asked) -> Reply:
        old = {"Name": "N2", "State": "Online", "NumberOfCores": "4", "MemorySize": "2048", "NodeGroups": "A,B"}
        if asked.path == "/hpc/nodes" and "queryId" not in asked.params:
            return Reply(body=several(old), headers={"x-ms-continuation-queryId": "1"})
        if asked.path == "/hpc/nodes":
            return Reply(body=several({**old, "Name": "N3", "Reachable": "False"}))
        return Reply(404, "no such path")

    with serving(answer) as server:
        with server.head() as head:
            second, third = nodes(head)
        assert (second.name, second.cpus, second.memory, second.groups) == ("N2", 4, 2048, ("A", "B"))
        assert second.usable and not third.usable and "cannot reach it" in third.reason
        del server.asked[:]
        with server.head(generation="2016") as head:
            assert len(nodes(head)) == 2
        assert server.lines() == ["GET /hpc/nodes"] * 2


def test_what_nodes_have_and_what_of_it_is_in_use() -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("metrics"):
            metrics = {"HpcCpuUsage": 12.345, "HPCCoresInUse": 6}
            return Reply(body=[{"NodeName": "n1", "Metrics": metrics}, {"NodeName": "N2", "Metrics": {}}])
        offline = typed("N3", State="Offline", Health="Error")
        return Reply(body=[typed("N1", Groups=["GPU"]), typed("N2", Health="Warning"), offline])

    with serving(answer) as server, server.head() as head:
        one, two, three = nodes(head, 4)
    assert (one.cpus, one.cpus_free, one.memory, one.load, one.gpus) == (8, 2, 28672, 12.3, 4)
    assert (one.state, one.note, one.groups, one.usable) == ("Online", "", ("GPU",), True)
    assert (two.note, two.usable, two.cpus_free, two.load) == ("Warning", True, None, None)
    assert (three.state, three.note, three.usable) == ("Offline", "Error", False) and three.reason


def test_a_head_without_metrics_tells_of_nodes_all_the_same() -> None:
    def answer(asked: Asked) -> Reply:
        return Reply(404) if asked.path.endswith("metrics") else Reply(body=[typed("N1")])

    with serving(answer) as server, server.head() as head:
        assert [each.name for each in nodes(head)] == ["N1"]


@pytest.mark.parametrize("name", [None, "", "n 1", "n[1-2]", "n,m", "n\n", "1" * 5000, 5.5e300, {"a": 1}])
@pytest.mark.parametrize("generation", ["2016", "2019"])
def test_nodes_without_usable_names(name: object, generation: str) -> None:
    """Found by review: with names that no host can have, `worldsize nodes` ended in a traceback."""
    new = {"Name": name, "State": "Online"} if name is not None else {"State": "Online"}
    reply = Reply(body=[new] if generation == "2019" else several(new))
    refused = pytest.raises(SubmitRejected, match="the answer is not understood")
    with serving(lambda _: reply) as server, server.head(generation=generation) as head, refused:
        nodes(head)


@pytest.mark.parametrize(
    "task", [{}, {"Name": ""}, {"Name": "node-2"}, {"Name": "node-x"}, {"Name": "node-%s" % ("9" * 5000)}]
)
def test_tasks_that_are_none_of_the_command(task: dict[str, str], tmp_path: Path) -> None:
    """Found by review: a head that numbers or names tasks otherwise was a traceback."""

    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("/tasks"):
            return Reply(body=several({"Name": "node-1", "State": "Running"}, {**task, "State": "Finished"}))
        return Reply(body=props(State="Running", StartTime="11/21/2026 5:20:00 PM"))

    with serving(answer) as server:
        backend = CommandJob(lambda patience: server.head(patience), 14, (3, 5), Share("", "/share", str(tmp_path)))
        with pytest.raises(SubmitAgain, match="the head node's answer is not understood"):
            backend.start_status()


def test_tasks_of_the_command(tmp_path: Path) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("/tasks"):
            return Reply(body=several({"Name": "node-1", "State": "Failed"}, {"Name": "node-0", "State": "Running"}))
        return Reply(body=props(State="Running", StartTime="11/21/2026 5:20:00 PM"))

    with serving(answer) as server:
        backend = CommandJob(lambda patience: server.head(patience), 14, (3, 5), Share("", "/share", str(tmp_path)))
        assert list(backend.start_status().gone) == [5]


def test_what_a_run_used() -> None:
    times = {"StartTime": "11/21/2026 5:20:00 PM", "EndTime": "11/21/2026 6:50:00 PM"}
    handle = {"job": 14, "run_id": "r", "nodes": 2, "gpus": 4}
    reply = Reply(body=props(Id=14, Name="worldsize r", State="Finished", **times))
    with serving([reply]) as server, server.head() as head:
        (used,) = usages(head, [handle])
    assert used is not None and (used.nodes, used.elapsed, used.gpus, used.gpu_hours) == (2, 5400, 8, 12.0)
    with serving([Reply(body=props(Id=14, Name="worldsize r", State="Running"))]) as server, server.head() as head:
        assert usages(head, [handle]) == [None]
