"""Where trials happen: a command line of its own for each, who a victim is there, and what nothing may be left of."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, Protocol

from driver import Cli, wait_for
from slurm.processes import Process, living

from chaos.plans import ELEMENTS, Strike, Trial

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
GRACE = 2.0
PATIENCE = 120.0
A_WHILE = 0.5
"""Seconds for which a process is stopped that goes on afterwards: far below every silence."""


class Disturbance(NamedTuple):
    """What has been done. `undo` is called at once where a run is to outlive it, else once the run has ended."""

    undo: Callable[[], object]
    at_once: bool = False


class Stage:
    """One trial in its world: its command line, its run, and the directory by which its ranks are led.

    run     the run, or the element of the array, that is struck
    others  the elements that are not
    client  the process of `worldsize run`, where the trial strikes it or goes by its words
    """

    def __init__(self, trial: Trial, cli: Cli) -> None:
        self.trial = trial
        self.cli = cli
        self.at = os.path.join(cli.root, "at")
        self.run = ""
        self.others: list[str] = []
        self.client: subprocess.Popen[bytes] | None = None
        os.makedirs(os.path.join(self.at, "notes"))

    def say(self, name: str) -> None:
        """To the ranks."""
        with open(os.path.join(self.at, name), "w"):
            pass

    def was_told(self, name: str) -> bool:
        return os.path.exists(os.path.join(self.at, name))

    def notes(self) -> dict[str, str]:
        """What ranks have written, by `RUN.ATTEMPT.RANK.WORKER`."""
        folder = os.path.join(self.at, "notes")
        found = {}
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name)) as file:
                found[name] = file.read()
        return found

    def has_written(self, rank: int, words: str) -> bool:
        begins, middle = self.run + ".", ".%d." % rank
        return any(words in text for name, text in self.notes().items() if name.startswith(begins) and middle in name)

    def log(self, run: str, attempt: str, rank: str) -> str:
        path = self.cli.path(run, "attempt-" + attempt, "logs", "rank-%05d.log" % int(rank))
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def events(self, kind: str, node: int = 0) -> bool:
        return any(event["event"] == kind for event in self.cli.events(self.run, node))


class World(Protocol):
    """A compute, and all that can go wrong there."""

    compute: str

    def stage(self, trial: Trial) -> AbstractContextManager[Stage]:
        """Everything that the trial needs, before anything of it has started; undone afterwards."""

    def job(self, stage: Stage) -> tuple[str, ...]:
        """Write the trial's job; the words of the command line that name it."""

    def submit(self, stage: Stage, words: Sequence[str]) -> str:
        """Start the trial's job; the id of its run."""

    def victims(self, stage: Stage, strike: Strike) -> list[int]:
        """The processes that a strike hits, by their pids here; none where there is none any more."""

    def disturb(self, stage: Stage, strike: Strike) -> Disturbance | None:
        """Do what is not a signal to a process of the run; None where the strike is one."""

    def left(self, stage: Stage, run: str) -> list[str]:
        """The processes of a run that still live, in words."""

    def held(self, stage: Stage, run: str) -> list[str]:
        """What a run has still allocated, in words."""


def write_job(stage: Stage, settings: dict[str, object], options: Sequence[str] = ()) -> tuple[str, ...]:
    """The trial's job in the project; the words of the command line that name it."""
    trial, cli = stage.trial, stage.cli
    for name in os.listdir(PROGRAMS):
        shutil.copy(os.path.join(PROGRAMS, name), cli.project)
    if trial.job == "script":
        lines = ["#!/bin/bash", "#SBATCH -N%d --ntasks-per-node=%d" % (trial.nodes, trial.ranks // trial.nodes)]
        lines += ["#SBATCH " + option for option in options]
        cli.write("job.slurm", "\n".join([*lines, "srun sh rank.sh %s" % stage.at, ""]))
        return ("job.slurm", "--set", "grace=%g" % GRACE)
    program = "tree.sh" if trial.job == "tree" else "rank.sh"
    job: dict[str, object] = {
        "command": "sh %s %s" % (program, stage.at),
        "code": ".",
        "distribution": {"type": "pytorch", "process_count_per_instance": trial.ranks // trial.nodes},
        "resources": {"instance_count": trial.nodes},
        "grace": GRACE,
        **settings,
    }
    if trial.job == "array":
        job["inputs"] = {"n": 0}
        job["matrix"] = {"n": list(range(ELEMENTS))}
    if trial.moment == "setup":
        job["setup"] = [f"touch {stage.at}/in-setup; until [ -e {stage.at}/gate ]; do sleep 0.05; done"]
    cli.write("job.yml", json.dumps(job))
    return ("job.yml",)


def environment(pid: int) -> dict[str, str]:
    """Empty for a process that is gone."""
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            entries = file.read().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def parent(pid: int) -> int:
    try:
        with open("/proc/%d/stat" % pid) as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def of_run(run: str) -> Iterator[Process]:
    """Every process that carries the run's id or the name of its directory, wherever on this machine."""
    for process in living():
        found = environment(process.pid)
        if run in " ".join(process.argv) or run in (found.get("WORLDSIZE_RUN_ID"), found.get("SLURM_JOB_NAME")):
            yield process


def ranks_of(run: str, rank: int) -> list[Process]:
    """The shells of a rank, the uppermost first."""
    found = []
    for process in of_run(run):
        variables = environment(process.pid)
        own = variables.get("RANK") or variables.get("SLURM_PROCID")
        if own == str(rank) and any(word.endswith(("rank.sh", "tree.sh")) for word in process.argv[:3]):
            found.append(process)
    above = {process.pid for process in found}
    return sorted(found, key=lambda process: (parent(process.pid) in above, process.pid))


def uppermost_rank(run: str, rank: int) -> list[int]:
    return [process.pid for process in ranks_of(run, rank)[:1]]


def child_of_rank(run: str, rank: int) -> list[int]:
    """One that it has in the background, and that has nothing to tell."""
    for process in of_run(run):
        variables = environment(process.pid)
        own = variables.get("RANK") or variables.get("SLURM_PROCID")
        if own == str(rank) and process.argv[:2] == ("sleep", "7654"):
            return [process.pid]
    return []


def send(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def fill(directory: str) -> str:
    """Leave no room on the file system of a directory; the file that takes it."""
    path = os.path.join(directory, "filler")
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * (1 << 16))
        except OSError:
            pass
        try:
            while True:
                file.write(b"\0" * 512)
        except OSError:
            pass
    return path


def remove(directory: str) -> None:
    """Whoever still writes there may make a file between two looks."""
    wait_for(lambda: shutil.rmtree(directory, ignore_errors=True) or not os.path.exists(directory), 30)


@contextmanager
def small_disk(directory: str, size: str = "24m") -> Iterator[str]:
    """A file system in memory, mounted at a new directory."""
    os.makedirs(directory)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%s,mode=0755" % size, "tmpfs", directory], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
        os.rmdir(directory)


def pause(pids: Sequence[int]) -> Disturbance:
    """Stop processes; undone, they go on."""
    send(pids, signal.SIGSTOP)

    def go_on() -> None:
        time.sleep(A_WHILE)
        send(pids, signal.SIGCONT)

    return Disturbance(go_on, at_once=True)
