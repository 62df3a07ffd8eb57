"""Real runs through the local compute, each in a home of its own; after each, nothing of it may be left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from worldsize.agent.local.conductor import fork_conductor, spawn_conductor
from worldsize.agent.posix import processes
from worldsize.compute.local.compute import LocalCompute
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exits
from worldsize.state.records import Observation, Status
from worldsize.state.run_state import AttemptFacts, fold
from worldsize.store.runs import create_run
from worldsize_conformance.driver import agent_bundle

HOOK = os.path.join(os.path.dirname(__file__), "..", "..", "src", "worldsize", "inrank", "sitecustomize.py")
ENVIRON = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}


def until(happens: Callable[[], Any], timeout: float = 60.0, what: str = "it") -> Any:
    """The first true answer; fails after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while True:
        found = happens()
        if found:
            return found
        assert time.monotonic() < deadline, "%s did not happen within %g s" % (what, timeout)
        time.sleep(0.005)


def marked(run_id: str) -> list[int]:
    mark = b"WORLDSIZE_RUN_ID=%s" % run_id.encode()
    return [pid for pid in _pids() if mark in _read("/proc/%d/environ" % pid).split(b"\0")]


class LocalRun:
    """One run, started at once. Short grace, so that tests are."""

    def __init__(
        self, home: str, argv: tuple[str, ...], nodes: int, ranks: int, environ: dict[str, str], **fields: Any
    ) -> None:
        self.paths: RunPaths = create_run(home)
        shutil.copy(HOOK, self.paths.inrank)
        values: dict[str, Any] = {"environment": {}, "grace": 0.5, "silence": 20.0, **fields}
        self.plan = Plan(
            self.paths.run_id, "t", "local", time.time(), 0, node_major_layout(nodes, ranks), argv, **values
        )
        with open(self.paths.plan, "w") as file:
            file.write(self.plan.to_json())
        self.compute = LocalCompute("local", {**ENVIRON, **environ})
        self.conductor = self._start({**ENVIRON, **environ})
        self.handle = {
            "pid": self.conductor,
            "start_time": processes.start_time(self.conductor),
            "run_dir": self.paths.root,
            "host": socket.gethostname(),
            "run_id": self.plan.run_id,
        }

    def _start(self, environ: dict[str, str]) -> int:
        """By a fork, whether or not the test runner has threads."""
        return fork_conductor(self.plan, self.paths, environ)

    # what it is doing

    def events(self, node_rank: int) -> list[dict[str, Any]]:
        try:
            with open(self.paths.events(node_rank)) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def event(self, node_rank: int, kind: str) -> dict[str, Any]:
        def find() -> dict[str, Any] | None:
            return next((event for event in self.events(node_rank) if event["event"] == kind), None)

        return until(find, what="event %s of node %d" % (kind, node_rank))

    def agent(self, node_rank: int) -> int:
        return self.event(node_rank, "agent_started")["pid"]

    def agents(self) -> list[int]:
        return [self.agent(node.node_rank) for node in self.plan.nodes]

    def rank(self, rank: int) -> int:
        """The process of a rank."""
        node = next(node for node in self.plan.nodes if any(each.rank == rank for each in node.ranks))
        return self.event(node.node_rank, "ranks_started")["pids"][str(rank)]

    def log(self, rank: int) -> str:
        try:
            with open(self.paths.rank_log(rank), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def said(self, word: str, ranks: int | None = None) -> None:
        """Wait until every rank, or the first so many, has printed `word`."""
        for rank in range(self.plan.world_size if ranks is None else ranks):
            until(lambda rank=rank: word in self.log(rank), what="%r of rank %d" % (word, rank))

    def marked(self) -> list[int]:
        """Every process that has this run's mark in its environment: ranks and all that they started."""
        return marked(self.paths.run_id)

    # its end

    def over(self) -> bool:
        return self.compute.observe([self.handle])[0].phase == "absent"

    def ended(self, timeout: float = 60.0) -> dict[str, Any]:
        """result.json, once the conductor is gone; nothing of the run is left then."""
        until(self.over, timeout, "the run's end")
        self.nothing_left()
        with open(self.paths.result) as file:
            found = json.load(file)
        return {**found["summary"], "message": found["message"], "failure": found["failure"]}

    def nothing_left(self, within: float = 0.0) -> None:
        until(lambda: not self.left(), within, "the end of all processes")

    def left(self) -> list[int]:
        agents = [event["pid"] for node in self.plan.nodes for event in self.events(node.node_rank)[:1]]
        return self.marked() + [pid for pid in agents if processes.start_time(pid) is not None]

    def fold(self, settled: bool = False) -> Status:
        """The state as the service would fold it."""
        gone = Observation("absent") if self.over() else Observation("running")
        exits = read_exits(self.paths, len(self.plan.nodes))
        cancelled = os.path.exists(self.paths.cancel)
        return fold(AttemptFacts(len(self.plan.nodes), True, True, None, cancelled, True, exits, gone, settled))

    def destroy(self) -> None:
        """Whatever a failed test left."""
        for pid in [self.conductor, *self.left()]:
            if pid != os.getpid() and processes.start_time(pid) is not None:
                with suppress(ProcessLookupError):  # it has ended since
                    os.kill(pid, signal.SIGKILL)


class SpawnedRun(LocalRun):
    """One whose conductor is a program of its own, started from agent.pyz."""

    def _start(self, environ: dict[str, str]) -> int:
        with open(self.paths.agent, "xb") as file:
            file.write(agent_bundle()[1])
        return spawn_conductor(self.paths, environ)


class LocalRuns:
    """Starts runs in one home; `destroy` ends what is left of any."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.runs: list[LocalRun] = []

    def spawned(self, script: str, nodes: int = 1, ranks: int = 1, **fields: Any) -> LocalRun:
        self.runs.append(SpawnedRun(self.home, ("/bin/sh", "-c", script), nodes, ranks, {}, **fields))
        return self.runs[-1]

    def argv(
        self, *argv: str, nodes: int = 1, ranks: int = 1, environ: dict[str, str] | None = None, **fields: Any
    ) -> LocalRun:
        self.runs.append(LocalRun(self.home, argv, nodes, ranks, environ or {}, **fields))
        return self.runs[-1]

    def sh(self, script: str, **options: Any) -> LocalRun:
        return self.argv("/bin/sh", "-c", script, **options)

    def python(self, program: str, **options: Any) -> LocalRun:
        """A program in a file, so that its frames have lines."""
        path = os.path.join(self.home, "program-%d.py" % len(self.runs))
        os.makedirs(self.home, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
        return self.argv(sys.executable, path, **options)

    def destroy(self) -> None:
        for run in self.runs:
            run.destroy()


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
