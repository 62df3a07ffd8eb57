"""A node whose ranks are forked from a process that has imported their modules: all are real processes of real Pythons,
started by the agent's own code from this process."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.agent.posix import processes
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.plan.plan import Plan, RankStart, node_major_layout
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.service.submission.rank_packages import rank_modules
from worldsize.wings.warm_start.agent.preparation import Preparation

PATIENCE = 60.0
BASE = os.path.realpath(sys.executable)
"""A Python outside of virtual environments, which loads what lies in the user's own site-packages."""


IS_FORKED = "gc.get_freeze_count() > 1000"
"""Whether a process was forked by one that had frozen its objects, as an expression. A plain Python 3.12 counts
hundreds as frozen, any other none."""


class RecordsNothing:
    def write_event(self, kind: str, **values: object) -> None:
        raise AssertionError("it has something to tell: %s" % values)


class Node:
    """The files and the processes of a node. `python`: what the command's `python` is."""

    def __init__(self, place: Path, python: str = sys.executable) -> None:
        self.place = place
        self.python = python
        self.paths = RunPaths(str(place / "run"))
        for each in self.paths.directories():
            os.makedirs(each, exist_ok=True)
        for name, source in rank_modules(("warm_start",)).items():
            target = Path(self.paths.root, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        self.libraries, self.programs, self.home = place / "libraries", place / "bin", place / "home"
        for each in (self.libraries, self.programs, self.home):
            each.mkdir()
        program = self.programs / "python"
        program.symlink_to(os.path.join(os.path.dirname(python), os.path.basename(python)))
        self.ranks = RankProcesses()
        self.preparation: Preparation | None = None
        self.preloader = 0
        self.codes: dict[int, int] = {}

    def script(self, text: str, name: str = "train.py") -> None:
        path = Path(self.paths.code, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def library(self, name: str, text: str) -> None:
        """A module that can be imported from anywhere, and that calls `wait()` to wait for `release`."""
        (self.libraries / (name + ".py")).write_text(text)

    def launch(
        self,
        modules: Sequence[str] = ("decimal",),
        command: str = "python train.py",
        ranks: int = 2,
        automatic: bool = False,
        **environ: str,
    ) -> NodeLaunch:
        path = "%s:%s:%s" % (self.programs, os.path.dirname(self.python), os.defpath)
        variables = {"PATH": path, "HOME": str(self.home), "PYTHONPATH": str(self.libraries), **environ}
        start = RankStart(tuple(modules), automatic, "they are named")
        plan = Plan(
            "run-7", "t", "local", 1.5, 0, node_major_layout(1, ranks), ("bash", "-c", command), {}, start=start
        )
        world = RendezvousResult("127.0.0.1", 29871, (Host("here", 2),))
        return NodeLaunch(plan, world, plan.nodes[0], self.paths, variables)

    def prepare(self, modules: Sequence[str] = ("decimal",), *args: object, **keys: object) -> Preparation:
        """Begin to import the modules."""
        self.preparation = Preparation(self.launch(modules, *args, **keys), Peers(Host("here", 2)))  # type: ignore[arg-type]
        if self.preparation._preloader is not None:
            self.preloader = self.preparation._preloader.pid
        return self.preparation

    def imported(self) -> Preparation:
        """Wait until the modules are imported, or it is known why they are not."""
        preparation = self.preparation
        assert preparation is not None
        while not preparation.ready:
            found, _, _ = select.select([preparation], [], [], PATIENCE)
            assert found, "the process that preloads says nothing"
            preparation.acknowledge()
        return preparation

    def start(self) -> Preparation:
        """Start the ranks, which read their modules plainly where the preparation has a doubt."""
        preparation = self.imported()
        launch = preparation.finish(RecordsNothing())  # type: ignore[arg-type]
        assert self.ranks.start_all(launch) is None
        return preparation

    def run(self, *args: object, **keys: object) -> Preparation:
        """Do all of it, and wait until the ranks have ended."""
        self.prepare(*args, **keys)  # type: ignore[arg-type]
        preparation = self.start()
        self.wait()
        return preparation

    def wait(self) -> None:
        """Wait until all ranks have ended."""
        until = time.monotonic() + PATIENCE
        for pid, process in list(self.ranks.running().items()):
            self.codes[process.ranks[0]] = processes.exit_code(_wait_for(pid, until))

    def logs(self) -> list[str]:
        """What ranks have written."""
        folder = Path(self.paths.rank_log(0)).parent
        return [each.read_text() for each in sorted(folder.glob("rank-*.log"))]

    def close(self) -> None:
        if self.preparation is not None:
            self.preparation.close()
        for pid in (*self.ranks.running(), self.preloader):
            if pid:
                processes.signal_group(pid, signal.SIGKILL)
                with suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def _wait_for(pid: int, until: float) -> int:
    while time.monotonic() < until:
        with suppress(ChildProcessError):  # until the process that has forked it has ended
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                return status
        time.sleep(0.005)
    raise AssertionError("process %d has not ended" % pid)


def is_alive(pid: int) -> bool:
    fields = processes.stat_fields(pid)
    return fields is not None and fields[0] not in b"ZX"


def same_for_all(values: Sequence[Mapping[str, object]]) -> bool:
    return all(each == values[0] for each in values)
