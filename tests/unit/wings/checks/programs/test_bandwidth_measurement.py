"""The measurement of the stage `bandwidth`: ranks of a torch that is made up, and an mpirun that is."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.wings.checks.programs.fake_torch import put_torch
from tests.unit.wings.checks.transport import mpi_lines

from worldsize.wings.checks.agent.measure import bandwidth, listener
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.programs import mpi_run
from worldsize.wings.checks.agent.programs.nccl_run import sent_between
from worldsize.wings.checks.agent.readers.rank_directory import rank_python


@pytest.fixture
def own_listener() -> Iterator[Any]:
    yield listener.start({"nodes": 2, "loopback": True}).answer()
    listener.close()


def context_of(tmp_path: Path, rank: int = 0, **environ: str) -> NodeContext:
    put_torch(tmp_path / "modules")
    speed = tmp_path / "root/sys/class/net/eth7/speed"
    speed.parent.mkdir(parents=True, exist_ok=True)
    speed.write_text("25000\n")
    (tmp_path / "tmp").mkdir(exist_ok=True)
    mine = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "modules"), "SEEN": str(tmp_path / "seen"),
        "TMPDIR": str(tmp_path / "tmp"), "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket",
    }  # fmt: skip
    asked = {"python": sys.executable}
    return NodeContext(rank, 2, "h", "n%d" % rank, "/", {**mine, **environ}, asked, root=str(tmp_path / "root"))


def order(told: Any = None, first: int = 0, ranks: int = 1, world: int = 2, seconds: float = 30) -> dict[str, Any]:
    """Of a node with these ranks; `told`: the listener of the node of rank 0, None for that node itself."""
    store = {"address": "127.0.0.1", "port": told["port"], "token": told["token"]} if told else None
    return {
        "nccl": {
            "backend": "nccl", "size": 1 << 29, "world": world, "first": first, "count": ranks, "address": "127.0.0.1",
            "seconds": seconds, "together": 20, "store": store, "readers": 0 if ranks == world else 1,
        }
    }  # fmt: skip


def test_ranks_of_two_nodes_meet_at_a_port_of_the_head(tmp_path: Path, own_listener: Any) -> None:
    answers: dict[int, Any] = {}

    def measure(rank: int) -> None:
        answers[rank] = bandwidth.run(context_of(tmp_path, rank), order(own_listener if rank else None, rank))

    threads = [threading.Thread(target=measure, args=(rank,)) for rank in (1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    seen = [(tmp_path / ("seen-%d" % rank)).read_text() for rank in (0, 1)]
    assert seen == ["nccl 127.0.0.1 41000 2"] * 2
    assert answers[0]["correct"] is True
    assert answers[1]["seconds"] > 0
    assert answers[0]["nccl"]["network"] == "Socket"
    assert answers[0]["nccl"]["paths"] == {}
    assert answers[0]["nccl"]["variables"] == {"NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}
    assert answers[0]["origins"] == dict.fromkeys(("NCCL_NET", "NCCL_IB_DISABLE"), "the node's environment")
    assert answers[0]["speeds"] == {"eth7": 25.0}
    assert answers[0]["sent"] is None
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_wrong_result_of_one_rank_is_the_nodes(tmp_path: Path) -> None:
    assert bandwidth.run(context_of(tmp_path, WRONG="1"), order(ranks=2))["correct"] is False


@pytest.mark.heavy
def test_what_made_a_rank_fail_is_told_and_the_others_end(tmp_path: Path) -> None:
    answer = bandwidth.run(context_of(tmp_path, BROKEN="1"), order(ranks=2, seconds=2))

    assert answer["failure"] == "rank 1: RuntimeError: NCCL error: unhandled system error"
    assert "seconds" not in answer


def test_a_python_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    context = context_of(tmp_path)._replace(asked={"python": "/nowhere/python"})

    assert bandwidth.run(context, order(ranks=2)) == {"failure": "no such file"}


def test_a_relative_python_is_the_one_of_the_directory_of_ranks(tmp_path: Path) -> None:
    (tmp_path / "code" / "bin").mkdir(parents=True)
    (tmp_path / "code" / "bin" / "python").symlink_to(sys.executable)
    context = context_of(tmp_path)._replace(asked={"python": "bin/python"}, run_dir=str(tmp_path))

    assert rank_python(context) == str(tmp_path / "code/bin/python")


@pytest.mark.heavy
def test_a_head_that_does_not_answer_is_a_failure(tmp_path: Path, own_listener: Any) -> None:
    wrong = order({**own_listener, "token": "0" * 32}, first=1, seconds=2)

    assert bandwidth.run(context_of(tmp_path, 1), wrong)["failure"].startswith("rank 1: did not finish in time")


def test_what_was_sent_between_two_readings() -> None:
    assert sent_between({"a": 10, "b": 5}, {"a": 14, "b": 5}) == 4
    assert sent_between({"a": 10}, {"b": 14}) is None
    assert sent_between({"a": 10}, {"a": 3}) is None
    assert sent_between({"a": 10}, {"a": ((1 << 32) - 1) * 4}) is None
    assert sent_between({}, {}) is None


def mpirun(tmp_path: Path, script: str) -> NodeContext:
    program = tmp_path / "bin" / "mpirun"
    program.parent.mkdir(exist_ok=True)
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    context = context_of(tmp_path)
    path = str(program.parent) + os.pathsep + os.environ["PATH"]
    return context._replace(environ={**context.environ, "PATH": path, "SLURM_JOB_ID": "7", "UCX_TLS": "tcp"})


def test_open_mpi_is_asked_outside_of_the_allocation(tmp_path: Path) -> None:
    (tmp_path / "said").write_text(mpi_lines.OMPI_5_TCP)
    test = '[ -z "$SLURM_JOB_ID" ] && [ "$OMPI_MCA_pml_base_verbose" = 10 ] || exit 9\n'
    context = mpirun(tmp_path, test + "cat %s >&2\n" % (tmp_path / "said"))
    answer = bandwidth.run(context, {"mpi": True})

    assert answer["mpi"]["pml"] == "ob1"
    assert answer["mpi"]["settings"] == {"UCX_TLS": "tcp"}
    assert answer["mpi"]["origins"] == {"UCX_TLS": "the node's environment"}


def test_an_mpirun_that_says_nothing_of_it(tmp_path: Path) -> None:
    context = mpirun(tmp_path, "echo 'mpiexec: unrecognized argument oversubscribe' >&2; exit 255\n")

    assert bandwidth.run(context, {"mpi": True}) == {"mpi_failure": "mpiexec: unrecognized argument oversubscribe"}


def test_an_mpirun_that_hangs_is_told_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi_run, "_LIMIT", 0.3)
    ended = tmp_path / "ended"
    context = mpirun(tmp_path, "trap 'touch %s; exit' TERM\nwhile :; do sleep 0.02; done\n" % ended)

    assert bandwidth.run(context, {"mpi": True}) == {"mpi_failure": "Open MPI printed nothing"}
    until = time.monotonic() + 10
    while not ended.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert ended.exists()


def test_no_mpirun(tmp_path: Path) -> None:
    context = context_of(tmp_path)._replace(environ={"PATH": str(tmp_path)})

    assert bandwidth.run(context, {"mpi": True}) == {"mpi_failure": "command not found"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Open MPI printed nothing"),
        ("a\nValueError: bad\n[rank0]: more\n", "ValueError: bad"),
        ("only \x1b[31mwords\n-----\n", "only \\x1b[31mwords"),
        ("x" * 900, "x" * 300),
    ],
)
def test_last_words_of_an_mpirun_that_fails(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "said").write_text(text)

    assert bandwidth.run(mpirun(tmp_path, "cat %s\n" % (tmp_path / "said")), {"mpi": True}) == {"mpi_failure": said}
