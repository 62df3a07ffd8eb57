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
from tests.unit.wings.checks.transport import mpi_lines

from worldsize.wings.checks.agent.measure import bandwidth, listener
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.programs import child_programs, mpi_run
from worldsize.wings.checks.agent.programs.child_programs import Program, last_words, read_output, run_programs

# What PROGRAM needs of torch, and a log such as NCCL's.
FAKE_TORCH = """
import os
class Numbers:
    def fill_(self, value): self.value = value
    def __eq__(self, other): return self
    def all(self): return os.environ.get("WRONG") != os.environ["RANK"]
class cuda:
    @staticmethod
    def set_device(number): print("a module that prints")
    @staticmethod
    def synchronize(): pass
float32 = None
def empty(number, dtype, device): return Numbers()
"""
FAKE_DISTRIBUTED = """
import os, sys
def init_process_group(kind, rank, world_size, timeout):
    assert (kind, os.environ["NCCL_DEBUG"]) == ("nccl", "INFO")
    if os.environ.get("BROKEN") == str(rank):
        raise RuntimeError("NCCL error: unhandled system error")
    if os.environ.get("BROKEN"):
        sys.stdin.read()
    with open(os.environ["NCCL_DEBUG_FILE"], "w") as log:
        log.write("n1:1:1 [0] NCCL INFO Using network Socket\\n")
        log.write("n1:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\\n")
        log.write("n1:1:1 [0] NCCL INFO NET/Socket : Using [0]eth7:10.0.0.1<0>\\n")
        log.write("n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Sock")
    with open(os.environ["SEEN"] + "-" + str(rank), "w") as seen:
        seen.write(" ".join(os.environ[n] for n in ("LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")))
def all_reduce(numbers): pass
def destroy_process_group(): pass
"""


@pytest.fixture
def own_listener() -> Iterator[Any]:
    yield listener.start({"nodes": 2, "loopback": True}).answer()
    listener.close()


def context_of(tmp_path: Path, rank: int = 0, **environ: str) -> NodeContext:
    package = tmp_path / "modules" / "torch"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(FAKE_TORCH)
    (package / "distributed.py").write_text(FAKE_DISTRIBUTED)
    speed = tmp_path / "root/sys/class/net/eth7/speed"
    speed.parent.mkdir(parents=True, exist_ok=True)
    speed.write_text("25000\n")
    (tmp_path / "tmp").mkdir(exist_ok=True)
    mine = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(package.parent), "SEEN": str(tmp_path / "seen"),
        "TMPDIR": str(tmp_path / "tmp"), "NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket",
    }  # fmt: skip
    asked = {"python": sys.executable}
    return NodeContext(rank, 2, "h", "n%d" % rank, "/", {**mine, **environ}, asked, root=str(tmp_path / "root"))


def order(told: Any, first: int = 0, nodes: int = 2, ranks: int = 1) -> dict[str, Any]:
    meeting = {"address": "127.0.0.1", "port": told["port"], "token": told["token"]}
    world = {
        "world": nodes * ranks,
        "nodes": nodes,
        "size": 1 << 29,
        "ranks": ranks,
        "first": first,
        "head": first == 0,
    }
    return {"nccl": {**world, **meeting}}


def test_ranks_of_two_nodes_meet_at_a_port_of_the_head(tmp_path: Path, own_listener: Any) -> None:
    answers: dict[int, Any] = {}

    def measure(rank: int) -> None:
        answers[rank] = bandwidth.run(context_of(tmp_path, rank), order(own_listener, rank))

    threads = [threading.Thread(target=measure, args=(rank,)) for rank in (1, 0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    seen = [(tmp_path / ("seen-%d" % rank)).read_text().split() for rank in (0, 1)]
    assert seen[0] == seen[1]
    assert seen[0][:3] == ["0", "2", "127.0.0.1"]
    assert int(seen[0][3]) > 0
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
    context = context_of(tmp_path, WRONG="1")
    answer = bandwidth.run(context, order({"port": 0, "token": ""}, nodes=1, ranks=2))

    assert answer["correct"] is False


def test_what_made_a_rank_fail_is_told_and_the_others_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_programs, "_GRACE", 0.1)
    context = context_of(tmp_path, BROKEN="1")
    answer = bandwidth.run(context, order({"port": 0, "token": ""}, nodes=1, ranks=2))

    assert answer["failure"] == "RuntimeError: NCCL error: unhandled system error"
    assert "seconds" not in answer


def test_a_python_that_is_not_there_is_a_failure(tmp_path: Path) -> None:
    context = context_of(tmp_path)._replace(asked={"python": "/nowhere/python"})
    answer = bandwidth.run(context, order({"port": 0, "token": ""}, nodes=1))

    assert answer == {"failure": "no such file"}


def test_a_head_that_does_not_answer_is_a_failure(tmp_path: Path, own_listener: Any) -> None:
    context = context_of(tmp_path, 1)
    wrong = order({**own_listener, "token": "0" * 32}, first=1)

    assert bandwidth.run(context, wrong)["failure"]


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

    assert bandwidth.run(context, {"mpi": True}) == {"mpi_failure": "Open MPI said nothing"}
    until = time.monotonic() + 10
    while not ended.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert ended.exists()


def test_no_mpirun(tmp_path: Path) -> None:
    context = context_of(tmp_path)._replace(environ={"PATH": str(tmp_path)})

    assert bandwidth.run(context, {"mpi": True}) == {"mpi_failure": "command not found"}


def shell(tmp_path: Path, *scripts: str) -> list[Program]:
    return [
        Program(["/bin/sh", "-c", script], {"PATH": os.environ["PATH"]}, str(tmp_path / ("out-%d" % number)))
        for number, script in enumerate(scripts)
    ]


def test_programs_that_are_late_are_ended(tmp_path: Path) -> None:
    outcome = run_programs(shell(tmp_path, "exec sleep 100", "exit 0"), 0.1)

    assert outcome == ((None, 0), None, True)


def test_a_program_that_takes_no_notice_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_programs, "_GRACE", 0.1)

    outcome = run_programs(shell(tmp_path, "trap '' TERM; while :; do sleep 0.05; done"), 0.1)

    assert outcome.late


def test_one_that_cannot_be_started_leaves_none_behind(tmp_path: Path) -> None:
    programs = [*shell(tmp_path, "echo $$; read line; echo end"), Program(["/nowhere"], {}, str(tmp_path / "x"))]

    with pytest.raises(OSError, match="nowhere"):
        run_programs(programs, 5)


def test_only_the_end_of_an_output_is_read(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"x" * 5000 + b"\xff end")

    assert read_output(str(tmp_path / "out"), 5) == "\ufffd end"
    assert read_output(str(tmp_path / "none")) == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ""),
        ("a\nValueError: bad\n[rank0]: more\n", "ValueError: bad"),
        ("only words\n-----\n", "only words"),
        ("x" * 900, "x" * 300),
    ],
)
def test_last_words(text: str, said: str) -> None:
    assert last_words(text) == said
