"""What a run's directory holds for its explanation: lines with their places, exceptions, clocks; secrets masked."""

from __future__ import annotations

import json
import os
import random

import pytest

from worldsize.common.atomic_files import write_json
from worldsize.diagnose.cause import ESTABLISHED
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.explanation import explain_run, read_evidence
from worldsize.state.records import ExitRecord, Failure, RankExit, Reason, RunState, Status
from worldsize.store.runs import create_run

PLAN = Plan("r", "t", "local", 1.0, 0, node_major_layout(2, 2), ("true",), {})
FAILURE = Failure(Reason.EXIT_CODE, "rank 1 failed", 0, 1, 1, 9.0)
FAILED = Status(RunState.FAILED, Reason.EXIT_CODE, 1, FAILURE.message, FAILURE)


@pytest.fixture
def paths(tmp_path) -> RunPaths:
    return create_run(str(tmp_path))


def log(paths: RunPaths, rank: int, text: str) -> None:
    with open(paths.rank_log(rank), "w", encoding="utf-8") as file:
        file.write(text)


def ended(paths: RunPaths, node: int, *ranks: RankExit) -> None:
    write_json(paths.exit_record(node), ExitRecord(node, "h", 0, 1.0, 2.0, ranks, "failure", None, 1).to_json())


def test_a_line_is_found_by_its_number(paths) -> None:
    log(paths, 1, "ä\n" * 1000 + "OSError: [Errno 28] No space left on device\nlast\n")
    found = explain_run(paths, PLAN, FAILED)
    assert found is not None and found.cause.id == "disk-full"
    assert [(link.file, link.line) for link in found.chain] == [(paths.rank_log(1), 1001)]


def test_a_line_of_a_long_log_is_found_near_its_end_alone(paths) -> None:
    log(paths, 1, "OSError: [Errno 28] No space left on device\n" + "epoch\n" * 5000)
    found = explain_run(paths, PLAN, FAILED)
    assert found is not None and found.cause.id == "unknown"


def test_of_many_ranks_fewer_lines_are_looked_through_but_for_the_first_that_failed(paths) -> None:
    plan = PLAN._replace(nodes=node_major_layout(100, 10))
    for rank in range(1000):
        log(paths, rank, "step\n" * 400)
    lines = read_evidence(paths, plan, FAILED).lines
    assert len(lines[1]) == 300 and len(lines[0]) == 15 and sum(map(len, lines.values())) < 16_000


def test_an_exception_has_the_place_in_the_users_code(paths) -> None:
    own = {"file": paths.code + "/train.py", "line": 7, "function": "f", "code": "x"}
    frames = [own, {"file": "/lib/torch.py", "line": 99, "function": "g", "code": "y"}]
    write_json(paths.rank_error(1), {"type": "KeyError", "message": "'RANK'", "frames": frames, "time": 8.5})
    found = explain_run(paths, PLAN, FAILED)
    assert found is not None and (found.cause.id, found.cause.standing) == ("rank-missing", ESTABLISHED)
    assert (found.chain[0].file, found.chain[0].line) == ("train.py", 7)


def test_a_rank_that_an_agent_has_ended_is_in_the_chain_and_not_its_cause(paths) -> None:
    ended(paths, 0, RankExit(0, 143, 1.0, 9.5, True), RankExit(1, 139, 1.0, 9.0, False))
    found = explain_run(paths, PLAN, FAILED._replace(failure=FAILURE._replace(code=139)))
    assert found is not None and (found.cause.id, found.cause.ranks) == ("segmentation-fault", (1,))
    assert [(link.role, link.ranks) for link in found.chain] == [("root", (1,)), ("cascade", (0,))]


def test_the_clock_of_a_node_is_read_from_its_events(paths) -> None:
    with open(paths.events(1), "w") as file:
        file.write(json.dumps({"time": 1.0, "event": "clock", "seconds": 2.5, "uncertainty": 0.25}) + "\n")
        file.write(json.dumps({"time": 1.0, "event": "clock", "seconds": "far", "uncertainty": None}) + "\n")
    assert read_evidence(paths, PLAN, FAILED).offsets == {1: (2.5, 0.25)}


def test_what_has_the_shape_of_a_secret_is_masked(paths) -> None:
    secret = "ghp_" + "a1B2" * 9
    log(paths, 1, "FileNotFoundError: [Errno 2] No such file or directory: 'x?token=%s'\n" % secret)
    found = explain_run(paths, PLAN, FAILED)
    assert found is not None and found.cause.id == "path-missing"
    assert secret not in json.dumps(found.to_json())


def test_a_variable_that_the_job_masks_is_masked(paths, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path))
    monkeypatch.setenv("SITE_WORD", "swordfish-7")
    log(paths, 1, "FileNotFoundError: [Errno 2] No such file or directory: '/data/swordfish-7'\n")
    found = explain_run(paths, PLAN._replace(secrets=("SITE_WORD",)), FAILED)
    assert found is not None and "swordfish-7" not in json.dumps(found.to_json())


def test_damaged_files_are_no_evidence_and_no_error(paths) -> None:
    chance = random.Random(20261129)
    files = [paths.rank_log(0), paths.rank_log(1), paths.rank_error(1), paths.events(1), paths.exit_record(0)]
    files += [paths.batch_log, paths.agent_log(0), paths.rank_times(1), paths.judged]
    pieces = [b"\0", b"\xff\xfe", b"{", b'"time":', b"NaN", b"\r", b"\n", b"[" * 3000, b"1e999", b"Killed", b"\x1b[31m"]
    for _ in range(60):
        for path in files:
            if chance.random() < 0.5:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as file:
                    file.write(b"".join(chance.choices(pieces, k=chance.randrange(40))))
        found = explain_run(paths, PLAN, FAILED)
        assert found is not None and found.cause.standing == "unknown", found
        json.dumps(found.to_json())
