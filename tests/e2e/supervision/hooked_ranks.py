"""Python processes that are started as an agent starts ranks: with the hook, and a file for their stacks."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import worldsize.inrank
from worldsize.wings.hangs import inrank
from worldsize.wings.hangs.agent.stack_collector import collect_stacks
from worldsize.wings.hangs.judgement.stacks.rank_stacks import RankStacks

READY = "print('ready', flush=True)\n"
WAITS = "import threading\n%sthreading.Event().wait()\n" % READY


class HookedRanks:
    """Ranks 0, 1, … that live until `close`. Each prints `ready` before what it is to be found in."""

    def __init__(self, root: Path) -> None:
        self.directory = root / "attempt-0" / "stacks"
        self.roots: dict[int, int] = {}
        self._root = root
        self._scripts: dict[str, Path] = {}
        self._processes: list[subprocess.Popen[str]] = []
        packages = root / "inrank" / "worldsize_inrank" / "hangs"
        packages.mkdir(parents=True)
        (root / "attempt-0" / "errors").mkdir(parents=True)
        shutil.copy(Path(inspect.getfile(worldsize.inrank)).with_name("sitecustomize.py"), root / "inrank")
        shutil.copy(inspect.getfile(inrank), packages)

    def start(self, program: str, *argv: str, count: int = 1, **variables: str) -> int:
        """Start a rank that executes this Python program, or the command `argv`, in which `{}` is the program's file;
        return its rank once it, or `count` of its processes, have said that they are ready. Ranks of one program have
        one file."""
        rank = len(self._processes)
        script = self._scripts.setdefault(program, self._root / ("rank%d.py" % rank))
        script.write_text(program)
        words = [word.replace("{}", str(script)) for word in argv] or [sys.executable, str(script)]
        environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self._root / "inrank"),
            "WORLDSIZE_RANK": str(rank),
            "WORLDSIZE_ERROR_FILE": str(self._root / "attempt-0" / "errors" / ("rank-%05d.json" % rank)),
            "WORLDSIZE_INRANK": "hangs",
            "OMP_NUM_THREADS": "1",
            **variables,
        }
        process = subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self._processes.append(process)
        self.roots[rank] = process.pid
        assert process.stdout is not None
        for _ in range(count):
            assert process.stdout.readline() == "ready\n"
        return rank

    def is_alive(self, rank: int) -> bool:
        return self._processes[rank].poll() is None

    def signal(self, rank: int, number: int) -> None:
        self._processes[rank].send_signal(number)

    def close(self) -> None:
        for process in self._processes:
            try:
                os.killpg(process.pid, 9)
            except ProcessLookupError:
                pass
            process.communicate()


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[HookedRanks]:
    started = HookedRanks(tmp_path)
    yield started
    started.close()


def collect(ranks: HookedRanks, program: str | None) -> list[RankStacks]:
    found = collect_stacks(ranks.roots, str(ranks.directory), find_program=lambda _: program)
    return sorted(found, key=lambda each: (each.rank, each.parent is not None))
