"""The events of a run: in order, by one clock, from files of which each has one writer."""

from __future__ import annotations

import json
import os

import pytest

from worldsize.common.atomic_files import write_json
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run_events import read_run_events
from worldsize.store.runs import create_run

PLAN = Plan("r", "t", "slurm", 1.0, 0, node_major_layout(2, 2), ("true",), {})


@pytest.fixture
def paths(tmp_path) -> RunPaths:
    return create_run(str(tmp_path))


def tell(paths: RunPaths, node: int, *events: object) -> None:
    with open(paths.events(node), "w") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def told(paths: RunPaths, *kinds: str) -> list[tuple[float, str, str]]:
    found = read_run_events(paths, PLAN)
    assert [each.time for each in found] == sorted(each.time for each in found)
    return [(each.time, each.source, each.text) for each in found if each.kind in kinds]


def test_nodes_are_put_on_one_clock(paths) -> None:
    tell(paths, 0, {"time": 100.0, "event": "rank_exited", "ranks": [0], "code": 143, "stopped": True})
    clock = {"time": 150.0, "event": "clock", "seconds": 51.0, "uncertainty": 0.01}
    tell(paths, 1, clock, {"time": 150.5, "event": "rank_exited", "ranks": [2, 3], "code": 1, "stopped": False})
    write_json(paths.rank_error(2), {"type": "ValueError", "message": "no", "frames": [], "time": 150.25})
    assert told(paths, "rank_exited", "exception") == [
        (99.25, "node 1", "rank 2 raised ValueError: no"),
        (99.5, "node 1", "ranks 2-3 ended with code 1"),
        (100.0, "node 0", "rank 0 ended with code 143, asked to end"),
    ]


def test_slurms_words_have_their_time(paths) -> None:
    with open(paths.batch_log, "w") as file:
        file.write(
            "epoch 1\nslurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-29T01:00:00 DUE TO TIME LIMIT ***\n"
        )
    ((_, source, text),) = told(paths, "ended")
    assert source == "scheduler" and "DUE TO TIME LIMIT" in text


def test_the_client_tells_when_it_was_asked_to_cancel(paths) -> None:
    write_json(paths.cancel, {})
    os.utime(paths.cancel, (50.0, 50.0))
    assert told(paths, "cancel") == [(50.0, "client", "a cancel was requested")]


def test_a_run_is_submitted_before_its_agents_start(paths) -> None:
    """A client that is slow may write the handle of a local run once the run has ended."""
    write_json(paths.handle, {"type": "local"})
    os.utime(paths.handle, (500.0, 500.0))
    assert told(paths, "submitted") == [(500.0, "client", "its compute has accepted it")]
    tell(paths, 1, {"time": 101.0, "event": "agent_started"})
    tell(paths, 0, {"time": 100.0, "event": "agent_started"}, {"time": 102.0, "event": "agent_ended"})
    found = [(each.time, each.kind) for each in read_run_events(paths, PLAN)]
    assert found[:2] == [(100.0, "submitted"), (100.0, "agent_started")]


def test_an_event_of_another_release_is_told_by_its_fields(paths) -> None:
    tell(paths, 0, {"time": 1.0, "event": "flown", "height": 3}, {"time": 2.0, "event": "rank_exited", "ranks": "all"})
    assert told(paths, "flown", "rank_exited") == [(1.0, "node 0", "height: 3"), (2.0, "node 0", "ranks: all")]


def test_what_is_damaged_is_left_out(paths) -> None:
    events = ({"time": "soon", "event": "x"}, {"event": "x"}, {"time": 1.0, "event": 3}, {"time": 1e300, "event": "x"})
    tell(paths, 0, *events, {"time": 5.0, "event": "agent_ended"})
    with open(paths.events(1), "wb") as file:
        file.write(b'\xff\0{"time": 1}\n[1]\n{"event": "clock", "seconds": "far"}\n')
    assert told(paths, "x", "agent_ended", "clock") == [(5.0, "node 0", "agent ended")]


def test_secrets_are_masked(paths) -> None:
    secret = "ghp_" + "a1B2" * 9
    tell(paths, 0, {"time": 1.0, "event": "notice", "text": "token=%s" % secret})
    write_json(paths.rank_error(1), {"type": "ValueError", "message": secret, "frames": [], "time": 2.0})
    assert not any(secret in text for _, _, text in told(paths, "notice", "exception"))


def test_secrets_are_masked_in_the_fields_too_and_what_is_deep_is_cut(paths) -> None:
    deep: object = "x"
    for _ in range(500):
        deep = [deep]
    tell(
        paths, 0, {"time": 1.0, "event": "notice", "text": "API_KEY=sk-abcdefghijklmnopqrstuvwxyz0123456789", "a": deep}
    )
    found = next(each for each in read_run_events(paths, PLAN) if each.kind == "notice")
    assert found.fields["text"] == "API_KEY=***" and "…" in json.dumps(found.fields["a"], ensure_ascii=False)


def test_a_number_that_is_too_large_is_no_defect(paths) -> None:
    tell(paths, 0, {"time": 1.0, "event": "clock", "seconds": 10**400, "uncertainty": 1})
    assert [each.kind for each in read_run_events(paths, PLAN) if each.source == "node 0"] == ["clock"]
