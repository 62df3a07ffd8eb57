"""Parametric sweeps, and jobs described in XML."""

from __future__ import annotations

import pytest
from hpcpack.simulator import Simulator, until, values

pytestmark = pytest.mark.exhaustive

SWEEP = {"Type": "ParametricSweep", "StartValue": 2, "EndValue": 6, "IncrementValue": 2}


def subtask(hpcpack: Simulator, job: int, number: int) -> dict[str, str]:
    return values(hpcpack.ask("GET", "/jobs/%d/tasks/1/subtasks/%d" % (job, number)))


def ready(hpcpack: Simulator, job: int, number: int, state: str) -> dict[str, str]:
    return until(lambda: subtask(hpcpack, job, number), lambda found: found["State"] == state, 20)  # type: ignore[no-any-return]


def test_a_subtask_for_each_value(hpcpack: Simulator) -> None:
    job = hpcpack.submitted({"CommandLine": "echo * *** $CCP_TASKINSTANCEID", **SWEEP}, "echo plain")
    assert hpcpack.wait(job)["State"] == "Finished"
    rows = [values(row["Properties"]) for row in hpcpack.ask("GET", "/jobs/%d/tasks" % job)]
    ids = ["%d.1.1" % job, "%d.1.2" % job, "%d.1.3" % job, "%d.2" % job]
    assert [row["TaskId"] for row in rows] == ids
    assert [subtask(hpcpack, job, each)["Output"] for each in (1, 2, 3)] == ["2 002 1\n", "4 004 2\n", "6 006 3\n"]
    masters = [values(row["Properties"]) for row in hpcpack.ask("GET", "/jobs/%d/tasks?expandParametric=false" % job)]
    assert [(row["TaskId"], row["State"]) for row in masters] == [
        ("%d.1" % job, "Finished"),
        ("%d.2" % job, "Finished"),
    ]


def test_subtasks_are_there_once_the_job_is_queued(hpcpack: Simulator) -> None:
    job = hpcpack.new_job({"CommandLine": "true", **SWEEP})
    answer = hpcpack.call("GET", "/jobs/%d/tasks/1/subtasks/1" % job)
    assert (answer.status_code, "has not been expanded yet" in answer.json()) == (404, True)
    hpcpack.ask("POST", "/jobs/%d/submit" % job)
    hpcpack.wait(job)
    assert hpcpack.call("GET", "/jobs/%d/tasks/1/subtasks/4" % job).status_code == 404


def test_verbs_of_subtasks(hpcpack: Simulator) -> None:
    job = hpcpack.submitted({"CommandLine": "sleep 60 || true", **SWEEP}, RunUntilCanceled=True)
    hpcpack.wait(job, "Running")
    for number in (1, 2, 3):
        ready(hpcpack, job, number, "Running")
    path = "/jobs/%d/tasks/1/subtasks/" % job
    hpcpack.ask("POST", path + "1/cancel", "not one")
    assert ready(hpcpack, job, 1, "Failed")["ErrorMessage"] == "not one"
    hpcpack.ask("POST", path + "2/finish", "two will do")
    assert ready(hpcpack, job, 2, "Finished")["ErrorMessage"] == "two will do"
    hpcpack.ask("POST", path + "1/requeue")
    ready(hpcpack, job, 1, "Running")
    hpcpack.ask("POST", "/jobs/%d/tasks/1/cancel" % job)
    assert [ready(hpcpack, job, each, "Failed")["State"] for each in (1, 3)]
    assert hpcpack.task(job)["State"] == "Canceled"
    assert hpcpack.call("PUT", path + "1", [{"Name": "Name", "Value": "x"}]).status_code == 400


XML = """
<Job xmlns="http://schemas.microsoft.com/HPCS2008R2/scheduler/" Name="from xml" UnitType="Node" Owner="somebody" Id="7"
     AutoCalculateMin="false" AutoCalculateMax="false" MinNodes="1" MaxNodes="1" State="Running" Version="3.0">
  <EnvironmentVariables><Variable><Name>WHO</Name><Value>job</Value></Variable></EnvironmentVariables>
  <CustomProperties><Term><Name>Team</Name><Value>blue</Value></Term></CustomProperties>
  <Tasks>
    <Task Name="one" CommandLine="echo &quot;$WHO&quot; $WHAT" MinNodes="1" MaxNodes="1">
      <EnvironmentVariables><Variable><Name>WHAT</Name><Value>task</Value></Variable></EnvironmentVariables>
    </Task>
    <Task CommandLine="echo *" IsParametric="true" StartValue="1" EndValue="2" />
  </Tasks>
</Job>
"""


def test_a_job_in_xml(hpcpack: Simulator) -> None:
    job = hpcpack.ask("POST", "/jobs/jobFile", XML)
    found = hpcpack.job(job)
    assert (found["Name"], found["State"], found["Owner"]) == ("from xml", "Configuring", hpcpack.user)
    assert hpcpack.ask("GET", "/jobs/%d/customProperties" % job) == [{"Name": "Team", "Value": "blue"}]
    hpcpack.ask("POST", "/jobs/%d/submit" % job)
    assert hpcpack.wait(job)["State"] == "Finished"
    assert hpcpack.task(job)["Output"] == "job task\n"
    assert values(hpcpack.ask("GET", "/jobs/%d/tasks/2/subtasks/2" % job))["Output"] == "2\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<Job>",
        "<Task/>",
        "<Job MinNodes='two'/>",
        "<Job><Tasks><Task MinCores='x'/></Tasks></Job>",
        "\0",
        "<!DOCTYPE",
    ],
)
def test_xml_that_is_no_job(hpcpack: Simulator, text: str) -> None:
    before = hpcpack.new_job()
    assert hpcpack.call("POST", "/jobs/jobFile", text).status_code == 400
    assert hpcpack.new_job() == before + 1, "nothing was created"


def test_xml_that_is_no_string(hpcpack: Simulator) -> None:
    assert hpcpack.call("POST", "/jobs/jobFile", {"Job": 1}).status_code == 400
