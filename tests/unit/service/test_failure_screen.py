"""The failure screen: who, where and what, on one screen whatever the ranks wrote."""

from __future__ import annotations

import json

import pytest

from worldsize.common.atomic_files import write_json
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.failure_screen import failure_data, failure_lines
from worldsize.state.records import ExitRecord, Failure, Reason, RunState, Status
from worldsize.store.runs import create_run

PLAN = Plan("r", "t", "local", 1.0, 0, node_major_layout(2, 4), ("true",), {})


def failed(code: int = 1, rank: int | None = 1) -> Status:
    failure = Failure(Reason.EXIT_CODE, "rank 1 on node 0 (h) exited with code 1: E: m", 0, rank, code, 9.0)
    return Status(RunState.FAILED, failure.reason, code, failure.message, failure)


@pytest.fixture
def paths(tmp_path) -> RunPaths:
    return create_run(str(tmp_path))


def log(paths: RunPaths, rank: int, text: str) -> None:
    with open(paths.rank_log(rank), "w", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize(("code", "name"), [(137, "SIGKILL"), (139, "SIGSEGV"), (1, None), (127, None), (255, None)])
def test_the_signal_has_its_name(paths, code, name):
    assert failure_data(paths, PLAN, failed(code))["signal"] == name


def test_the_host_is_the_nodes(paths):
    assert failure_data(paths, PLAN, failed())["host"] is None
    record = ExitRecord(0, "gpu17", 0, 1.0, 2.0, (), "failure", None, 1)
    write_json(paths.exit_record(0), record.to_json())
    assert failure_data(paths, PLAN, failed())["host"] == "gpu17"


def test_long_lines_are_trimmed_and_say_by_how_much(paths):
    log(paths, 1, "short\n" + "ü" * 400 + "\n")
    log(paths, 2, "x" * 3000 + "\n")
    data = failure_data(paths, PLAN, failed())
    assert data["last_lines"] == ["short", "ü" * 300 + "… (200 more bytes)"]
    assert all(len(line) < 400 for line in data["others"])


def test_everything_together_is_one_screen(paths):
    frames = [{"file": "/lib/%d.py" % at, "line": 1, "function": "f", "code": "y" * 5000} for at in range(50)]
    error = {"type": "E", "message": "\n".join("z" * 5000 for _ in range(100)), "frames": frames, "time": 1.0}
    with open(paths.rank_error(1), "w") as file:
        json.dump(error, file)
    for rank in range(8):
        log(paths, rank, "\n".join("%s %s" % (chr(97 + rank) * 3000, line) for line in range(100)) + "\n")
    lines = "\n".join(failure_lines(paths, "r", failure_data(paths, PLAN, failed()))).split("\n")
    assert len(lines) <= 40
    assert all(len(line) < 400 for line in lines)
    assert lines[-1].startswith("full log:")


def test_a_long_torch_stack_is_one_screen_too(paths):
    extra = {"py_callstack": "\n".join("  frame %d" % at for at in range(500)), "timestamp": "1"}
    write_json(paths.rank_error(1) + ".torchelastic", {"message": {"message": "E: m", "extraInfo": extra}})
    log(paths, 1, "line\n" * 50)
    assert len(failure_lines(paths, "r", failure_data(paths, PLAN, failed()))) <= 40


def test_what_to_do_about_a_known_message(paths):
    def screen(kind, message):
        with open(paths.rank_error(1), "w") as file:
            json.dump({"type": kind, "message": message, "frames": [], "time": 1.0}, file)
        data = failure_data(paths, PLAN, failed())
        return data["hint"], failure_lines(paths, "r", data)

    hint, lines = screen("ValueError", "Attempt to convert a value (PerReplica:{\n  0: <tf.Tensor>})")
    assert "tf-keras" in hint and "what to do: " + hint in lines
    hint, lines = screen("ValueError", "Attempt to convert a value (None)")
    assert hint is None and not any(line.startswith("what to do") for line in lines)


def test_a_run_whose_ranks_never_started_shows_what_came_before_them(paths):
    setup = failed(rank=None)
    assert failure_lines(paths, "r", failure_data(paths, PLAN, setup)) == [setup.message]
    with open(paths.batch_log, "w") as file:
        file.write("line\n" * 100 + "x is unknown\n")
    lines = failure_lines(paths, "r", failure_data(paths, PLAN, setup))
    assert lines[1:3] == ["", "last lines before the ranks (%s):" % paths.batch_log]
    assert lines[-1] == "  | x is unknown" and len(lines) < 20
    unmet = setup._replace(failure=setup.failure._replace(reason=Reason.RENDEZVOUS))
    assert failure_lines(paths, "r", failure_data(paths, PLAN, unmet)) == [setup.message]
    other = setup._replace(failure=setup.failure._replace(node_rank=1))
    with open(paths.setup_log(1), "w") as file:
        file.write("y is unknown\n")
    assert failure_lines(paths, "r", failure_data(paths, PLAN, other))[-1] == "  | y is unknown"
    with open(paths.events(0), "w") as file:
        file.write('{"event": "ranks_started", "time": 5.0}\n')
    assert "other ranks:" in failure_lines(paths, "r", failure_data(paths, PLAN, setup))


WARM = [{"event": "agent_started", "time": 1.0}, {"event": "ranks_started", "time": 2.0, "start": "warm", "pids": {}}]
HINT = "try `preload: off`"


@pytest.mark.parametrize(
    ("events", "code", "rank", "is_told"),
    [
        (WARM, 139, 1, True),
        (WARM, 134, 1, True),
        (WARM, 1, 1, False),
        (WARM, 139, None, False),
        ([{**WARM[1], "time": -22.0}], 139, 1, False),
        ([{**WARM[1], "start": "plain"}], 139, 1, False),
        ([{"event": "ranks_started", "time": 2.0, "pids": {}}], 139, 1, False),
        ([{**WARM[1], "time": "soon"}], 139, 1, False),
        ([], 139, 1, False),
    ],
)
def test_a_signal_soon_after_a_warm_start(paths, events, code, rank, is_told):
    with open(paths.events(0), "w") as file:
        file.writelines(json.dumps(each) + "\n" for each in events)
    hint = failure_data(paths, PLAN, failed(code, rank))["hint"]
    assert (HINT in (hint or "")) is is_told
