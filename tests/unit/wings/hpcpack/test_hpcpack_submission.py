"""Exactly once, however many answers are lost: a head node with jobs, and a connection that loses some."""

from __future__ import annotations

from typing import Any

import pytest
from hpcpack_server import LOST, Asked, Reply, Server, props, serving, several

from worldsize.errors import SubmitAgain, SubmitRejected
from worldsize.wings.hpcpack.render import Requests
from worldsize.wings.hpcpack.submission import submit_all


class Cluster:
    """Jobs by number. `lose`: requests, by method and path's last word, whose answer is lost that many times; those in
    `before` are lost before they have had their effect."""

    def __init__(self, lose: dict[str, int] | None = None, before: bool = False, **refuse: Any) -> None:
        self.jobs: dict[int, dict[str, Any]] = {}
        self.lose = dict(lose or {})
        self.before = before
        self.refuse = refuse
        self.submitted: list[int] = []

    def __call__(self, asked: Asked) -> Reply:
        key = "%s %s" % (asked.method, asked.path.rpartition("/")[2])
        losing = self.lose.get(key, 0) > 0
        if losing:
            self.lose[key] -= 1
            if self.before:
                return LOST
        reply = self._act(asked)
        return LOST if losing else reply

    def _act(self, asked: Asked) -> Reply:
        parts = asked.path.removeprefix("/hpc/jobs").strip("/").split("/")
        if parts == [""]:
            if asked.method == "POST":
                return self._create(asked.body)
            newest = sorted(self.jobs, reverse=True)
            return Reply(body=several(*[{"Id": job, **self._shown(job)} for job in newest]))
        job, what = int(parts[0]), parts[1] if len(parts) > 1 else ""
        if not what:
            return Reply(body=props(Id=job, **self._shown(job)))
        return getattr(self, "_" + what)(job, asked)

    def _create(self, body: list[dict[str, str]]) -> Reply:
        if "create" in self.refuse:
            return Reply(400, self.refuse["create"])
        number = len(self.jobs) + 1
        values = {each["Name"]: each["Value"] for each in body}
        self.jobs[number] = {"state": "Configuring", "tasks": [], "values": values}
        return Reply(body=number)

    def _shown(self, job: int) -> dict[str, str]:
        return {
            "Name": self.jobs[job]["values"]["Name"],
            "State": self.jobs[job]["state"],
            **self.refuse.get("shown", {}),
        }

    def _tasks(self, job: int, asked: Asked) -> Reply:
        if asked.method == "GET":
            return Reply(body=several(*[{"TaskId": "1", "Name": name} for name in self.jobs[job]["tasks"]]))
        if "task" in self.refuse:
            return Reply(400, self.refuse["task"])
        self.jobs[job]["tasks"].append(next(each["Value"] for each in asked.body if each["Name"] == "Name"))
        return Reply(body=len(self.jobs[job]["tasks"]))

    def _submit(self, job: int, asked: Asked) -> Reply:
        said = {each["Name"]: each["Value"] for each in asked.body or []}
        if "password" in self.refuse and said != {"UserName": "CORP\\me", "Password": "pass:wörd"}:
            return Reply(400, self.refuse["password"])
        if self.jobs[job]["state"] != "Configuring":
            return Reply(400, "The job cannot be submitted in the %s state." % self.jobs[job]["state"])
        self.jobs[job]["state"] = self.refuse.get("state", "Queued")
        self.submitted.append(job)
        return Reply(204)

    def _cancel(self, job: int, asked: Asked) -> Reply:
        self.jobs[job]["state"] = "Canceled"
        return Reply(204)


def wanted(name: str = "worldsize r", nodes: int = 2) -> Requests:
    return Requests({"Name": name}, tuple({"Name": "node-%d" % node} for node in range(nodes)))


def submit(
    server: Server, *jobs: Requests, parents: Any = lambda jobs: (), told: list[list[int]] | None = None
) -> list[int]:
    with server.head() as head:
        return submit_all(head, jobs, parents, (told if told is not None else []).append, server.sleep)


def test_one_job_takes_three_requests_and_one_for_each_node() -> None:
    cluster, told = Cluster(), []
    with serving(cluster) as server:
        assert submit(server, wanted(nodes=3), told=told) == [1]
    tasks = ["POST /hpc/jobs/1/tasks"] * 3
    assert server.lines() == ["POST /hpc/jobs", *tasks, "POST /hpc/jobs/1/submit", "GET /hpc/jobs/1"]
    assert server.asked[4].body is None and told == [[1]]
    assert cluster.jobs[1]["tasks"] == ["node-0", "node-1", "node-2"]


@pytest.mark.parametrize("before", [False, True], ids=["done", "never arrived"])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("what", ["POST jobs", "POST tasks", "POST submit"])
def test_a_lost_answer_is_looked_up(what: str, times: int, before: bool) -> None:
    cluster = Cluster({what: times}, before)
    with serving(cluster) as server:
        (job,) = submit(server, wanted())
    assert cluster.submitted == [job] and cluster.jobs[job]["tasks"] == ["node-0", "node-1"]
    alive = [number for number, each in cluster.jobs.items() if each["state"] != "Canceled"]
    assert alive == [job]


def test_a_task_that_came_twice_costs_the_job_and_not_the_run() -> None:
    """Its first request was still on its way when it was looked for."""
    cluster = Cluster({"POST tasks": 1})
    hidden = iter([True, True])
    tasks = cluster._tasks

    def late(job: int, asked: Asked) -> Reply:
        return Reply(body=[]) if asked.method == "GET" and next(hidden, False) else tasks(job, asked)

    cluster._tasks = late  # type: ignore[method-assign]
    with serving(cluster) as server:
        assert submit(server, wanted()) == [2]
    assert cluster.jobs[1]["state"] == "Canceled" and cluster.jobs[2]["tasks"] == ["node-0", "node-1"]
    assert cluster.submitted == [2]


def test_a_connection_that_loses_everything_is_given_up() -> None:
    cluster = Cluster({"POST jobs": 99}, before=True)
    with serving(cluster) as server, pytest.raises(SubmitAgain):
        submit(server, wanted())
    assert not cluster.jobs


def test_the_password_goes_along_only_where_the_head_asks_for_it() -> None:
    cluster = Cluster(password="The credentials of CORP\\me are not cached.")
    with serving(cluster) as server:
        assert submit(server, wanted()) == [1]
    first, second = [each for each in server.asked if each.path.endswith("/submit")]
    assert first.body is None and {each["Name"] for each in second.body} == {"UserName", "Password"}


@pytest.mark.parametrize("step", ["create", "task"])
def test_a_refusal_leaves_nothing_behind(step: str) -> None:
    cluster = Cluster(**{step: "There is no job template Gold."})
    with serving(cluster) as server, pytest.raises(SubmitRejected, match="job template Gold") as caught:
        submit(server, wanted())
    assert "hpcpack.template" in str(caught.value)
    assert all(job["state"] == "Canceled" for job in cluster.jobs.values()) and not cluster.submitted


@pytest.mark.parametrize("state", ["Failed", "Configuring"])
def test_a_refusal_may_come_after_the_submission(state: str) -> None:
    cluster = Cluster(state=state, shown={"ErrorMessage": "The node N9 does not exist."})
    with serving(cluster) as server, pytest.raises(SubmitRejected, match="refused the job: The node N9 does not exist"):
        submit(server, wanted())
    assert cluster.jobs[1]["state"] == "Canceled"


def test_a_job_that_failed_because_it_ran_was_not_refused() -> None:
    cluster = Cluster(state="Failed", shown={"StartTime": "11/21/2026 5:20:00 PM"})
    with serving(cluster) as server:
        assert submit(server, wanted()) == [1]


def test_a_head_that_thinks_long_is_not_waited_for() -> None:
    with serving(Cluster(state="Validating")) as server:
        assert submit(server, wanted()) == [1]
        assert server.lines().count("GET /hpc/jobs/1") == 2


def test_several_are_all_there_before_the_first_is_submitted() -> None:
    cluster = Cluster()
    jobs = [wanted("worldsize r_%d" % number, 1) for number in range(3)]
    with serving(cluster) as server:
        assert submit(server, *jobs, parents=lambda before: before[-1:]) == [1, 2, 3]
    lines = server.lines()
    assert lines.index("POST /hpc/jobs/1/submit") > max(i for i, line in enumerate(lines) if line == "POST /hpc/jobs")
    assert [cluster.jobs[job]["values"].get("ParentJobIds") for job in (1, 2, 3)] == [None, "1", "2"]
    assert cluster.submitted == [1, 2, 3]


def test_all_of_several_or_none() -> None:
    cluster = Cluster()
    submitting = cluster._submit
    cluster._submit = lambda job, asked: Reply(400, "too many jobs") if job == 2 else submitting(job, asked)  # type: ignore[method-assign]
    with serving(cluster) as server, pytest.raises(SubmitRejected, match="too many jobs"):
        submit(server, *[wanted("worldsize r_%d" % number, 1) for number in range(3)])
    assert [job["state"] for job in cluster.jobs.values()] == ["Canceled"] * 3
