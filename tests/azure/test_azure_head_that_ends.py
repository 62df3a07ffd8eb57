"""A head that ends before its members have met it, as processes of the nodes: nobody waits for it in vain."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml_double.double import until

from worldsize.common.atomic_files import write_json
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.snapshot.agent_bundle import ensure_agent_bundle
from worldsize.wings.azure.agent.job_node import KEY_FILE, PROGRAMS_FILE
from worldsize.wings.azure.workspace.agent_job import _BOOT

KEY = "ab" * 32


class Nodes:
    """The processes of a job's three nodes, each with a working directory of its own."""

    def __init__(self, place: Path, setup: str) -> None:
        self.place = place
        self.folder = place / "run"
        self.folder.mkdir()
        shutil.copy(ensure_agent_bundle(str(place / "cache")), self.folder / "agent.pyz")
        argv = ("/bin/sh", "-c", "true")
        nodes, options = node_major_layout(3, 1), {"setup": (setup,), "rendezvous_timeout": 60.0}
        plan = Plan("run-1", "t", "lab", time.time(), 0, nodes, argv, {}, **options)
        (self.folder / "plan.json").write_text(plan.to_json())
        (self.folder / KEY_FILE).write_text(KEY)
        write_json(str(self.folder / PROGRAMS_FILE), [])
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, node_rank: int) -> subprocess.Popen[bytes]:
        folder = self.place / ("node-%d" % node_rank)
        folder.mkdir()
        environ = {
            "PATH": os.environ["PATH"],
            "NODE_RANK": str(node_rank),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.port),
            "TMPDIR": str(folder),
        }
        with open(self.log(node_rank), "wb") as log:
            argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(self.folder)]
            self.started.append(subprocess.Popen(argv, cwd=folder, env=environ, stdout=log, stderr=log))
        return self.started[-1]

    def log(self, node_rank: int) -> Path:
        return self.place / ("log-%d" % node_rank)

    def has_told_its_end(self, node_rank: int) -> bool:
        return b"exit/node-%04d.json" % node_rank in self.log(node_rank).read_bytes()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path, "[ $NODE_RANK != 0 ] || exit 3")
    try:
        yield made
    finally:
        for process in made.started:
            process.kill()
            process.wait()


@pytest.mark.exhaustive
def test_members_that_come_later_end_as_the_head_did(nodes: Nodes) -> None:
    head = nodes.start(0)
    until(lambda: nodes.has_told_its_end(0), bool, 30)  # at once, before it waits
    began = time.monotonic()
    members = [nodes.start(1), nodes.start(2)]
    assert [each.wait(30) for each in (*members, head)] == [3, 3, 3]
    assert time.monotonic() - began < 30
    for node_rank in (1, 2):
        said = nodes.log(node_rank).read_text()
        assert (
            nodes.has_told_its_end(node_rank)
            and "the head (node 0) ended with code 3 before this node joined it" in said
        )
        assert '\\"reason\\":\\"ENVIRONMENT\\"' in said or '\\"reason\\": \\"ENVIRONMENT\\"' in said
    assert not list(nodes.place.glob("node-*/worldsize-*"))


@pytest.mark.exhaustive
def test_a_head_that_waits_for_its_members_ends_when_it_is_told_to(nodes: Nodes) -> None:
    head = nodes.start(0)
    until(lambda: nodes.has_told_its_end(0), bool, 30)
    with pytest.raises(subprocess.TimeoutExpired):
        head.wait(1)
    head.send_signal(signal.SIGTERM)
    assert head.wait(30) == 3
