"""Lists of jobs and tasks: properties, filters, order, the two pagings."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from hpcpack.simulator import Simulator, values

pytestmark = pytest.mark.exhaustive

QUERY_ID, ROW_COUNT = "x-ms-continuation-queryId", "x-ms-row-count"


@pytest.fixture(scope="module")
def project(hpcpack: Simulator) -> str:
    """The name that 12 jobs have, one of which is over."""
    name = "lists %d" % time.monotonic_ns()
    for number in range(12):
        hpcpack.new_job("echo %d" % number, "true", Name=name, Priority="Highest" if number == 3 else "Lowest")
    done = hpcpack.submitted("true", Name=name + " done")
    hpcpack.wait(done)
    return name


def newest(hpcpack: Simulator, **query: Any) -> Any:
    return hpcpack.call("GET", "/jobs", params=query)


def ids(answer: Any) -> list[int]:
    return [int(values(row["Properties"])["Id"]) for row in answer.json()]


def pages(hpcpack: Simulator, path: str, **query: Any) -> Iterator[list[dict[str, str]]]:
    while True:
        answer = hpcpack.call("GET", path, params=query)
        assert answer.status_code == 200, answer.text
        yield [values(row["Properties"]) for row in answer.json()]
        if QUERY_ID not in answer.headers:
            return
        query["queryId"] = answer.headers[QUERY_ID]


def test_ten_rows_unless_asked_otherwise(hpcpack: Simulator, project: str) -> None:
    for _ in range(5):
        hpcpack.new_job()
    answer = newest(hpcpack)
    assert len(answer.json()) == 10 and QUERY_ID in answer.headers and ROW_COUNT not in answer.headers
    assert list(values(answer.json()[0]["Properties"])) == ["Id", "Owner", "Name", "State", "Priority"]


def test_every_row_once_by_query_id(hpcpack: Simulator, project: str) -> None:
    found = [int(row["Id"]) for page in pages(hpcpack, "/jobs", rowsPerRead=3) for row in page]
    assert found == list(range(1, len(found) + 1))
    total = int(newest(hpcpack, startRow=0).headers[ROW_COUNT])
    assert len(found) == total


def test_jobs_made_while_reading_do_not_shift_pages(hpcpack: Simulator, project: str) -> None:
    first = newest(hpcpack, rowsPerRead=3, asc=False)
    hpcpack.new_job()
    second = newest(hpcpack, rowsPerRead=3, queryId=first.headers[QUERY_ID])
    again = newest(hpcpack, rowsPerRead=3, queryId=first.headers[QUERY_ID])
    assert ids(second) == [ids(first)[-1] - 1 - each for each in range(3)] == ids(again)


def test_a_last_page_that_is_full_has_no_query_id(hpcpack: Simulator, project: str) -> None:
    total = int(newest(hpcpack, startRow=0).headers[ROW_COUNT])
    assert QUERY_ID not in newest(hpcpack, rowsPerRead=total).headers


def test_by_rows(hpcpack: Simulator, project: str) -> None:
    total = int(newest(hpcpack, startRow=0).headers[ROW_COUNT])
    answer = newest(hpcpack, startRow=total - 2, rowsPerRead=5, queryId="ignored")
    assert ids(answer) == [total - 1, total]
    assert (answer.headers[ROW_COUNT], QUERY_ID in answer.headers) == (str(total), False)
    beyond = newest(hpcpack, startRow=total)
    assert (beyond.json(), beyond.headers[ROW_COUNT]) == ([], str(total))


@pytest.mark.parametrize(
    "query",
    [
        {"rowsPerRead": "0"},
        {"rowsPerRead": "many"},
        {"startRow": "-1"},
        {"startRow": "1.5"},
        {"queryId": "made-up"},
        {"asc": "up"},
        {"properties": "Id,Colour"},
        {"$filter": "JobState eq Asleep"},
        {"$filter": "JobState is Queued"},
        {"$filter": "Colour eq red"},
        {"$filter": "ChangeTimeFrom eq yesterday"},
    ],
    ids=str,
)
def test_bad_queries_are_refused(hpcpack: Simulator, project: str, query: dict[str, str]) -> None:
    answer = newest(hpcpack, **query)
    assert (answer.status_code, bool(answer.json())) == (400, True)


def test_a_query_id_belongs_to_its_list(hpcpack: Simulator, project: str) -> None:
    name = newest(hpcpack, rowsPerRead=1).headers[QUERY_ID]
    assert hpcpack.call("GET", "/nodes", params={"queryId": name}).status_code == 400


def test_filters(hpcpack: Simulator, project: str) -> None:
    over = newest(hpcpack, **{"$filter": "JobState eq finished", "rowsPerRead": 1000, "properties": "state"})
    assert {values(row["Properties"])["State"] for row in over.json()} == {"Finished"}
    later = time.strftime("%m/%d/%Y %H:%M:%S", time.gmtime(time.time() + 60))
    hpcpack.new_job()
    both = "JobState eq Configuring and ChangeTimeFrom eq "
    assert newest(hpcpack, **{"$filter": both + later}).json() == []
    assert newest(hpcpack, **{"$filter": both + "1/1/2020 1:00:00 PM"}).json() != []
    assert newest(hpcpack, owner="hpc\\HPCADMIN").json() != []
    assert newest(hpcpack, owner="nobody").json() == []


def test_order(hpcpack: Simulator, project: str) -> None:
    down = ids(newest(hpcpack, rowsPerRead=1000, asc="False"))
    assert down == sorted(down, reverse=True) and len(down) > 9
    names = [
        values(row["Properties"])["Name"]
        for row in newest(hpcpack, rowsPerRead=1000, sortJobsBy="name", properties="Name").json()
    ]
    assert names == sorted(names, key=str.lower)
    assert ids(newest(hpcpack, rowsPerRead=1000, sortJobsBy="Colour")) == sorted(down)


def test_property_names_in_any_letter_case(hpcpack: Simulator) -> None:
    body = [{"name": "MINNODES", "value": "2"}, {"NAME": "unittype", "VALUE": "node"}]
    job = hpcpack.ask("POST", "/jobs", body)
    asked = hpcpack.ask("GET", "/Jobs/%d?PROPERTIES=unitTYPE,minnodes" % job)
    assert asked == [{"Name": "UnitType", "Value": "Node"}, {"Name": "MinNodes", "Value": "2"}]


def test_all_properties(hpcpack: Simulator) -> None:
    job = hpcpack.new_job("true")
    of_job, of_task = hpcpack.job(job), hpcpack.task(job)
    assert of_job["AutoCalculateMin"] == "True" and of_job["Priority"] == "Normal" and of_job["EndTime"] == ""
    assert of_job["Owner"] == hpcpack.user
    assert (of_task["TaskId"], of_task["JobTaskId"], of_task["InstanceId"]) == ("%d.1" % job, "1", "0")


def test_numbers_stand_for_words(hpcpack: Simulator) -> None:
    job = hpcpack.new_job(UnitType=2, Priority=0, IsExclusive=1)
    found = hpcpack.job(job)
    assert (found["UnitType"], found["Priority"], found["IsExclusive"]) == ("Node", "Lowest", "True")


@pytest.mark.parametrize(
    "body",
    [
        {"Name": "Id"},
        [{"Name": "Colour", "Value": "red"}],
        [{"Name": "State", "Value": "Running"}],
        [{"Name": "MinNodes", "Value": "two"}],
        [{"Name": "UnitType", "Value": "Rack"}],
        [{"Value": "x"}],
        [{"Name": "Name", "Value": 3}],
        ["Name"],
        "Name",
    ],
    ids=str,
)
def test_bad_properties_are_refused(hpcpack: Simulator, body: object) -> None:
    answer = hpcpack.call("POST", "/jobs", body)
    assert (answer.status_code, isinstance(answer.json(), str)) == (400, True)


def test_tasks(hpcpack: Simulator) -> None:
    job = hpcpack.submitted("exit 1", *["true"] * 11)
    hpcpack.wait(job)
    path = "/jobs/%d/tasks" % job
    found = [row for page in pages(hpcpack, path, rowsPerRead=5) for row in page]
    assert [row["TaskId"] for row in found] == ["%d.%d" % (job, number) for number in range(1, 13)]
    words = ["TaskId", "Name", "State", "CommandLine", "ExitCode", "ParentJobId", "JobTaskId", "InstanceId"]
    assert list(found[0]) == words
    some = {
        "TaskState eq Failed": 1,
        "TaskIds eq 2,3": 2,
        "TaskStates eq Failed,Finished": 12,
        "TaskInstanceIds eq 0": 12,
    }
    for text, count in some.items():
        rows = hpcpack.call("GET", path, params={"$filter": text, "startRow": 0})
        assert int(rows.headers[ROW_COUNT]) == count, text
    down = [row["JobTaskId"] for page in pages(hpcpack, path, asc=False, sortTasksBy="TaskId") for row in page]
    assert down[:2] == ["12", "11"]


# Changes


def test_what_may_be_changed_and_when(hpcpack: Simulator) -> None:
    job = hpcpack.new_job("sleep 60 || true", RunUntilCanceled=True)
    path = "/jobs/%d" % job
    hpcpack.ask("PUT", path, named("Name", "one") + named("UnitType", "Core"))
    hpcpack.ask("PUT", path + "/tasks/1", named("Name", "first"))
    assert (hpcpack.job(job)["Name"], hpcpack.task(job)["Name"]) == ("one", "first")
    hpcpack.ask("POST", path + "/submit")
    hpcpack.wait(job, "Running")
    hpcpack.ask("PUT", path, named("Name", "two"))
    assert hpcpack.call("PUT", path, named("UnitType", "Node")).status_code == 400
    assert hpcpack.call("PUT", path + "/tasks/1", named("Name", "second")).status_code == 400
    hpcpack.ask("POST", path + "/cancel?forced=true")
    hpcpack.wait(job, "Canceled")
    assert hpcpack.call("PUT", path, named("Name", "three")).status_code == 400
    assert hpcpack.job(job)["Name"] == "two"


def named(name: str, value: str) -> list[dict[str, str]]:
    return [{"Name": name, "Value": value}]


@pytest.mark.parametrize("task", ["", "/tasks/1"])
def test_custom_properties(hpcpack: Simulator, task: str) -> None:
    path = "/jobs/%d%s/customProperties" % (hpcpack.new_job("true"), task)
    hpcpack.ask("POST", path, named("Team", "blue") + named("Cost", "7"))
    assert hpcpack.ask("GET", path) == named("Team", "blue") + named("Cost", "7")
    assert hpcpack.ask("GET", path + "?names=team,none") == named("Team", "blue")


@pytest.mark.parametrize(
    "path", ["/jobs/99999", "/jobs/JOB/tasks/99999", "/jobs/99999999999999", "/jobs/JOB/tasks/1/subtasks/1", "/none"]
)
def test_what_does_not_exist(hpcpack: Simulator, path: str) -> None:
    job = hpcpack.new_job("true")  # whether the cluster's first job has subtasks, other tests decide
    answer = hpcpack.call("GET", path.replace("JOB", str(job)))
    assert (answer.status_code, isinstance(answer.json(), str)) == (404, True)


def test_bodies_and_methods_that_are_none(hpcpack: Simulator) -> None:
    assert hpcpack.call("POST", "/jobs", content=b"{").status_code == 400
    assert hpcpack.call("POST", "/jobs", content=b"<a/>", headers={"Content-Type": "text/xml"}).status_code == 415
    assert hpcpack.call("DELETE", "/jobs").headers["Allow"] == "GET, POST"
    job = hpcpack.new_job("true")
    assert hpcpack.call("POST", "/jobs/%d/cancel" % job, {"why": 1}).status_code == 400
    assert hpcpack.job(job)["State"] == "Configuring"
