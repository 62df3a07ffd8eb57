"""The collector as a program: stacks, then dumps, then RAS, by its order, of ranks that hang in torch with gloo."""

import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

from worldsize.wings.hangs.agent import ras_query
from worldsize.wings.hangs.agent.ras_query import ask_ras_of
from worldsize.wings.hangs.agent.stack_collector import PROGRAM
from worldsize.wings.hangs.agent.watch_node import packages
from worldsize.wings.hangs.judgement.node_answer import parse_answer
from worldsize.wings.hangs.judgement.recorder.recorder_verdict import recorder_findings
from worldsize.wings.hangs.judgement.verdict import SUPPORTED, hang_verdict

RANK = """
import os, sys, time
os.environ["WORLDSIZE_RANK_PYTHON"] = "%d " % os.getpid()
from worldsize.wings.hangs import inrank
inrank.at_start()
import torch, torch.distributed as dist
dist.init_process_group("gloo")
ones = torch.ones(4)
for _ in range(3):
    dist.all_reduce(ones)
os.write(1, b"hangs\\n")
if dist.get_rank() == 1:
    time.sleep(300)
dist.all_reduce(ones)
"""


@pytest.fixture
def hanging(tmp_path):
    """Three ranks, of which rank 1 does not enter the fourth all_reduce: by rank, its process."""
    pytest.importorskip("torch")
    (tmp_path / "errors").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "3", "WORLDSIZE_WATCHDOG": "300"}
    ranks = {}
    try:
        for rank in range(3):
            own = {"RANK": str(rank), "WORLDSIZE_ERROR_FILE": str(tmp_path / "errors" / ("rank-%05d.json" % rank))}
            ranks[rank] = subprocess.Popen(
                [sys.executable, "-c", RANK],
                env={**os.environ, "OMP_NUM_THREADS": "1", **place, **own},
                stdout=subprocess.PIPE,
                stderr=open(tmp_path / ("%d.err" % rank), "wb"),
                start_new_session=True,
            )
        assert [each.stdout.readline() for each in ranks.values()] == [b"hangs\n"] * 3
        yield ranks
    finally:
        for each in ranks.values():
            each.kill()
            each.communicate()


def collect(ranks, tmp_path, **more):
    pids = {str(rank): each.pid for rank, each in ranks.items()}
    order = {"ranks": pids, "directory": str(tmp_path / "stacks"), "seconds": 30, **more}
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, packages()]
    done = subprocess.run(command, input=json.dumps(order), capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return parse_answer(done.stdout)


def all_wait(answer):
    return [len(each.entries) for each in answer.dumps] == [4, 3, 4]


@pytest.mark.heavy
@pytest.mark.timeout(180)
def test_the_recorder_alone_names_the_rank_of_a_real_hang(hanging, tmp_path):
    answer = collect(hanging, tmp_path, dumps=True)
    while not all_wait(answer):  # a rank is about to call
        answer = collect(hanging, tmp_path, dumps=True)
    assert {each.rank: each.pid for each in answer.stacks} == {rank: each.pid for rank, each in hanging.items()}
    found = hang_verdict(recorder_findings(answer.dumps, 3))
    assert (found.standing, found.kind, found.ranks) == (SUPPORTED, "H1", (1,))
    assert (found.call, found.sequence, found.waiting) == ("all_reduce", 4, (0, 2))
    assert all(each.taken is not None and not each.fault for each in answer.dumps)
    assert [(tmp_path / ("%d.err" % rank)).read_bytes() for rank in hanging] == [b""] * 3, "torch warns of no variable"
    stopped = hanging[2]
    stopped.send_signal(19)
    while open("/proc/%d/stat" % stopped.pid).read().rpartition(") ")[2][0] != "T":
        time.sleep(0.02)
    answer = collect(hanging, tmp_path, dumps=True)
    assert [each.rank for each in answer.dumps] == [0, 1], "one that is stopped is not asked"
    assert collect(hanging, tmp_path).dumps == ()


def test_ras_is_asked_where_the_environment_of_a_rank_says(monkeypatch):
    report = b'{"communicators": []}\n'

    def answer(listening):
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as lines:
            for line in lines:
                connection.sendall(b"SERVER PROTOCOL 2\n" if line.startswith(b"CLIENT") else b"OK\n")
                if line.startswith(b"SET"):
                    break
            assert lines.readline() == b"STATUS\n"
            connection.sendall(report)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        monkeypatch.setattr(ras_query, "nccl_version", lambda pid: {7: "2.28.9"}.get(pid, ""))
        monkeypatch.setattr(ras_query, "ras_port", lambda pid: {7: port}[pid])
        for given in (0, port):
            thread = threading.Thread(target=answer, args=(listening,))
            thread.start()
            assert ask_ras_of([5, 7, 9], given, 10.0).text == report.decode()
            thread.join()
        assert "no rank" in ask_ras_of([5, 9], port, 10.0).refusal


@pytest.mark.parametrize("order", ["", "[]", '{"ranks": {}}', '{"ranks": {"a": 1}, "directory": ""}', "{" * 9000])
def test_what_is_no_order(order):
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, packages()]
    done = subprocess.run(command, input=order, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("worldsize: this is not an order to collect stacks: ")
    assert done.stdout == "" and done.stderr.count("\n") == 1
