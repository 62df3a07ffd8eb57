"""For how long a node is silent: by its logs, the bytes that its processes move, and its GPUs; and which GPUs those
are."""

from __future__ import annotations

import pytest

from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.supervision.standstill import ProcessActivity, Sample
from worldsize.wings.hangs.agent.node_gpus import gpu_environment
from worldsize.wings.hangs.agent.signs_of_life import SignsOfLife
from worldsize.wings.hangs.judgement.gpu_signs import GpuReading
from worldsize.wings.hangs.judgement.watch import NodeSigns, signs_of

WORKS, SPINS = GpuReading(0, 0.5, 600.0), GpuReading(0, 0.0, 200.0)
VISIBLE = "CUDA_VISIBLE_DEVICES"


def sample(at: float, logged: int = 0, moved: int = 0) -> Sample:
    return Sample(at, (logged,), {7: ProcessActivity(0, moved, False)})


def test_lines_and_bytes_are_signs() -> None:
    signs = SignsOfLife(10.0, 0.0)
    quiet = [signs.add(sample(at), [0]).silent for at in (0.0, 10.0, 20.0)]
    assert quiet == [0.0, 10.0, 20.0]
    assert signs.add(sample(30.0, logged=5), [0]) == (0.0, True, (0,), 0.0)
    assert signs.add(sample(40.0, logged=5, moved=1 << 20), [1, 0]) == (0.0, True, (0, 1), 0.0)
    assert signs.add(sample(50.0, logged=5, moved=1 << 20), []).silent == 10.0


def test_who_serves_a_meeting_moves_some_bytes() -> None:
    """Found with a rank that did not come: who serves PyTorch's store asks it a hundred times a second."""
    signs = SignsOfLife(10.0, 0.0)
    assert [signs.add(sample(10.0 * at, moved=at * 44_000), [0]).silent for at in range(3)] == [0.0, 10.0, 20.0]


def test_a_sample_that_comes_late_begins_anew() -> None:
    signs = SignsOfLife(10.0, 0.0)
    assert [signs.add(sample(at), [0]).silent for at in (0.0, 20.0, 60.0)] == [0.0, 20.0, 0.0]


def test_what_ranks_write_since_they_are_asked_for_their_stacks_is_none() -> None:
    """Found with ranks that py-spy could not read: each look gave a sign of life, and put off the next."""
    signs = SignsOfLife(10.0, 0.0)
    signs.add(sample(0.0), [0])
    assert signs.add(sample(10.0, moved=1 << 20), [0], is_asked=True).silent == 10.0
    assert signs.add(sample(20.0, moved=1 << 20), [0]).silent == 20.0
    assert signs.add(sample(30.0, logged=1, moved=2 << 20), [0], is_asked=True).silent == 0.0


def test_a_gpu_that_works_is_one_and_a_busy_one_is_not() -> None:
    signs = SignsOfLife(10.0, 0.0)
    signs.add(sample(0.0), [0])
    assert [signs.add(sample(at), [0], [WORKS]).silent for at in (10.0, 20.0, 3600.0)] == [0.0] * 3
    assert [signs.add(sample(at), [0], [SPINS]).silent for at in (3610.0, 3620.0)] == [10.0, 20.0]


def test_gpus_that_have_worked_and_do_not_any_more_are_idle() -> None:
    signs = SignsOfLife(10.0, 0.0)
    signs.add(sample(0.0, logged=1), [0])
    assert signs.add(sample(10.0, logged=2), [0], [SPINS]).idle == 0.0, "it has not worked yet"
    signs.add(sample(20.0, logged=3), [0], [WORKS])
    idle = [signs.add(sample(at, logged=3), [0], [SPINS]).idle for at in (30.0, 40.0, 50.0)]
    assert idle == [0.0, 10.0, 20.0]
    assert signs.add(sample(60.0, logged=3), [0]).idle == 30.0, "an answer has not come"
    assert signs.add(sample(70.0, logged=3), [0], [SPINS, GpuReading(1, None, None)]).idle == 0.0
    assert signs.add(sample(80.0, logged=3), [0], [SPINS]).idle == 0.0
    quiet = [signs.add(sample(at, logged=3), [0]).idle for at in (90.0, 100.0, 110.0, 120.0)]
    assert quiet == [10.0, 20.0, 30.0, 0.0], "nobody has read them for long"


@pytest.mark.parametrize("idle", [None, -1, "30", float("nan"), float("inf"), 10**400, [30]])
def test_signs_whose_idle_time_is_damaged(idle: object) -> None:
    told = NodeSigns(40.0, True, (0, 1), 30.0)
    assert signs_of(told._asdict()) == told
    assert signs_of({**told._asdict(), "idle": idle}) == told._replace(idle=0.0)


def test_what_work_takes_is_learned_while_there_are_other_signs() -> None:
    signs = SignsOfLife(10.0, 0.0)
    for at in range(4):
        signs.add(sample(10.0 * at, logged=at), [0], [WORKS])
    assert signs.add(sample(40.0, logged=3), [0], [GpuReading(0, 0.11, 600.0)]).silent == 10.0
    assert signs.add(sample(50.0, logged=3), [0], [GpuReading(0, 0.2, 600.0)]).silent == 0.0


@pytest.mark.parametrize(
    ("variables", "visible"),
    [
        (["0", "1"], "0,1"),
        (["3,5", "3, 5"], "3,5"),
        (["GPU-1"], "GPU-1"),
        (["", ""], ""),
        ([None], None),
        (["0", None], None),
    ],
)
def test_the_gpus_that_any_rank_sees(
    monkeypatch: pytest.MonkeyPatch, variables: list[str | None], visible: str | None
) -> None:
    monkeypatch.setenv(VISIBLE, "7")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/agent")
    given = {"LD_LIBRARY_PATH": "/rank", "ROCR_VISIBLE_DEVICES": "2", "TOKEN": "secret", "WORLDSIZE_RANK": "0"}
    environments = [given if each is None else {**given, VISIBLE: each} for each in variables]
    started = [Process((rank,), ("true",), each, "log", ()) for rank, each in enumerate(environments)]
    found = gpu_environment(started, VISIBLE)
    assert found.get(VISIBLE) == visible
    assert (found["LD_LIBRARY_PATH"], found["ROCR_VISIBLE_DEVICES"]) == ("/rank", "2")
    assert "PATH" in found
    assert not {"TOKEN", "WORLDSIZE_RANK"} & found.keys()
