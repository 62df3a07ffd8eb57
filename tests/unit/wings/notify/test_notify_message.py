"""What the command of `notify` is told of each event of an attempt."""

from __future__ import annotations

import json

import pytest

from worldsize.state.records import Failure, Reason, RunState, Status
from worldsize.wings.notify.agent.message import (
    ToldRun,
    end_messages,
    message_text,
    resumed_message,
    start_message,
    stuck_message,
)

RUN = ToldRun("20260101-000000-000abc", "train", "lab", 0, 2, 8, "/runs/20260101-000000-000abc", 100.0, "417")
NAMED = "train (20260101-000000-000abc) "
COMMON = {"run", "name", "compute", "attempt", "nodes", "world_size", "directory"}
ALWAYS = {"event", "state", "reason", "time", "seconds", "text", *COMMON}


def said(message):
    return message["event"], message["state"], message["reason"], message["text"].replace(NAMED, "")


def test_a_start():
    message = start_message(RUN, 101.5)
    assert said(message) == ("start", "RUNNING", None, "started on lab: 2 nodes, 8 ranks")
    assert set(message) == {*ALWAYS, "job"}
    assert (message["job"], message["time"], message["seconds"], message["world_size"]) == ("417", 101.5, 1.5, 8)
    again = start_message(RUN._replace(attempt=2, nodes=1, world_size=1, job=None), 101.5)
    assert again["text"] == NAMED + "started on lab: 1 node, 1 rank, attempt 2"
    assert set(again) == ALWAYS and again["attempt"] == 2


def test_a_hang_and_its_end():
    fields = {"sentence": "rank 3 never entered ALLREDUCE 7", "standing": "established", "seconds": 312}
    message = stuck_message(RUN, 500.0, fields)
    text = "seems to hang: no sign of life for 312 s: rank 3 never entered ALLREDUCE 7"
    assert said(message) == ("stuck", "RUNNING", None, text)
    assert (message["why"], message["standing"]) == (fields["sentence"], "established")
    resumed = resumed_message(RUN, 510.0)
    assert said(resumed) == ("resumed", "RUNNING", None, "continues: there are signs of life again")


@pytest.mark.parametrize("fields", [{}, {"sentence": 3, "seconds": "x"}, {"sentence": ""}])
def test_of_a_hang_nothing_may_be_known(fields):
    assert stuck_message(RUN, 500.0, fields)["text"] == NAMED + "seems to hang: no sign of life"


def test_a_success():
    (message,) = end_messages(RUN, Status(RunState.SUCCEEDED, None, 0), 3800.0, True)
    assert said(message) == ("end", "SUCCEEDED", None, "is over: SUCCEEDED after 1 h 1 min")
    assert (message["exit_code"], message["may_restart"]) == (0, False) and "why" not in message


def test_a_failure_is_told_before_the_end():
    failure = Failure(Reason.EXIT_CODE, "ValueError: no\nsuch shard", 1, 5, 3, 190.0)
    status = Status(RunState.FAILED, failure.reason, 3, failure.message, failure)
    told = end_messages(RUN, status, 195.0, True)
    text = "failed after 1 min 35 s: EXIT_CODE of rank 5, exit code 3: ValueError: no such shard"
    assert [said(message) for message in told] == [
        ("failure", "FAILED", "EXIT_CODE", text),
        ("end", "FAILED", "EXIT_CODE", "is over: FAILED, EXIT_CODE after 1 min 35 s"),
    ]
    for message in told:
        assert [message[key] for key in ("rank", "node", "exit_code", "may_restart")] == [5, 1, 3, False]
        assert message["why"] == "ValueError: no such shard"


@pytest.mark.parametrize("restartable", [True, False])
def test_a_lost_node_may_be_followed_by_another_attempt_where_there_is_a_scheduler(restartable):
    failure = Failure(Reason.NODE_FAILURE, "node 1: its agent has ended", 1)
    status = Status(RunState.FAILED, failure.reason, 1, failure.message, failure)
    for message in end_messages(RUN, status, 102.0, restartable):
        assert message["may_restart"] is restartable and message["node"] == 1 and "rank" not in message
        assert message["text"].endswith("; its scheduler may start it again") is restartable


def test_an_end_that_somebody_has_asked_for():
    status = Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, 130, "cancelled")
    (message,) = end_messages(RUN, status, 102.0, True)
    assert said(message) == ("end", "CANCELLED", "CANCELLED_BY_USER", "is over: CANCELLED after 2.0 s")
    assert message["may_restart"] is False
    (elsewhere,) = end_messages(RUN, status._replace(reason=None), 102.0, True)
    assert elsewhere["may_restart"] is True and elsewhere["reason"] is None
    assert elsewhere["why"].startswith("its scheduler ended it") and elsewhere["why"] in elsewhere["text"]


def test_what_is_told_is_bounded_one_line_and_without_secrets():
    why = "hunter2hunter2 at https://anna:pass@host " + "x\n" * 5000
    message = stuck_message(RUN, 500.0, {"sentence": why})
    text = message_text(message, ["hunter2hunter2"])
    assert "\n" not in text and len(text) < 5000
    assert "hunter2" not in text and "anna:pass" not in text and json.loads(text)["why"].startswith("*** at https://")
