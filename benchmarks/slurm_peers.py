"""Others that submit to Slurm, on the same cluster: how long until the first rank speaks, and until all are dead.

2 nodes × 2 ranks; each rank says when it is there and then lives on, but for rank 1, which fails a second later (exit
code 3). Measured are the submitting command, the time from typing it to the first and to the last rank, and from the
failure until no rank is alive (each holds a pipe open as long as it lives) and until the allocation is free again.

* torchx: `torchx run -s slurm dist.ddp -j 2x2`, as its documentation of the Slurm scheduler has it, with a job_dir,
  which makes it copy the code as we do. It submits a heterogeneous job, one component per node.
* submitit: an AutoExecutor with nodes=2, tasks_per_node=2, as its examples have it; and once more with srun's own
  --kill-on-bad-exit, which it does not set by itself.
* srun torchrun: a batch script with one torchrun per node, as PyTorch's documentation has it.
* srun: a batch script with one task per rank, as is and with --kill-on-bad-exit.

torchx and submitit live in an environment of their own (build/bench-peers, made when it is missing).
"""

from __future__ import annotations

import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from harness import CHECKOUT, Bench, rounds
from slurm_bed import PROGRAMS, Bed
from slurm_start import RANKS_PER_NODE, plain_script, torchrun_script

PEERS = os.path.join(CHECKOUT, "build", "bench-peers")
PINS = os.path.join(CHECKOUT, "requirements", "bench.txt")
FAILING = os.path.join(PROGRAMS, "failing.py")
RANKS = 4
FOREVER = 12.0
"""Seconds after which ranks that still live are taken to live on."""

ALL_DEAD_SECONDS = 3.0
OURS = "worldsize submit"
KILLING = "--kill-on-bad-exit=1"
HEAD = [
    "how",
    "submitting, ms",
    "to the first rank, s",
    "to the last rank, s",
    "failure to all dead, s",
    "failure to nodes free, s",
    "left over",
]


class Story(NamedTuple):
    """Seconds; None for what never happens by itself. `left` is how many processes are on the nodes at the end."""

    submitting: float
    first: float
    last: float
    dead: float | None
    free: float | None
    left: int


class Peers:
    """Each way to run the same ranks, told as a `Story` per run."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._count = 0
        self.project = bed.project("peers", {"train.py": "pass\n"})
        self.stories: dict[str, list[Story]] = {}

    def ways(self) -> dict[str, Callable[[], list[str]]]:
        """Names and how their command is made; those whose ranks never end by themselves come last."""
        notes = self._bed.notes.path
        found: dict[str, Callable[[], list[str]]] = {
            OURS: lambda: [self._bed.worldsize, "submit", "-w", "2x2", "--", "python", FAILING, notes],
            "sbatch; srun %s" % KILLING: self._script("killing.sh", "srun %s python %s %s" % (KILLING, FAILING, notes)),
        }
        if importlib.util.find_spec("torch"):
            text = torchrun_script("%s %s" % (FAILING, notes), 2)
            found["sbatch; srun torchrun"] = self._file("torchrun.sh", text)
        tools = versions()
        if "torchx" in tools and importlib.util.find_spec("torch"):
            found["torchx %s" % tools["torchx"]] = self._torchx
        if "submitit" in tools:
            found["submitit %s, %s" % (tools["submitit"], KILLING)] = lambda: self._submitit(KILLING)
        return found

    def endless(self) -> dict[str, Callable[[], list[str]]]:
        notes = self._bed.notes.path
        found: dict[str, Callable[[], list[str]]] = {
            "sbatch; srun": self._script("srun.sh", "srun python %s %s" % (FAILING, notes)),
        }
        tools = versions()
        if "submitit" in tools:
            found["submitit %s" % tools["submitit"]] = self._submitit
        return found

    def tell(self, name: str, command: Callable[[], list[str]]) -> float:
        """Runs it once; seconds to the first rank."""
        notes = self._bed.notes
        notes.clear()
        argv = command()
        began = time.time()
        submitting = self._bed.run(*argv, cwd=self.project)
        ranks = notes.wait("rank", RANKS)
        (failed,) = notes.wait("failing", 1)
        released = notes.wait_released(FOREVER)
        if released is None:
            self._bed.cancel_all()
            dead = free = None
        else:
            dead, free = released - failed, self._bed.wait_calm() - failed
        story = Story(submitting, min(ranks) - began, max(ranks) - began, dead, free, self._bed.left_over())
        self.stories.setdefault(name, []).append(story)
        return story.first

    def _script(self, name: str, line: str) -> Callable[[], list[str]]:
        return self._file(name, plain_script(line, RANKS_PER_NODE, 2))

    def _file(self, name: str, text: str) -> Callable[[], list[str]]:
        path = self._bed.write(os.path.join(self.project, name), text)
        return lambda: ["sbatch", path]

    def _torchx(self) -> list[str]:
        settings = "partition=main,time=5,job_dir=" + self._new_folder("torchx")
        words = ["run", "-s", "slurm", "-cfg", settings, "dist.ddp", "-j", "2x2", "--script", FAILING]
        return [os.path.join(PEERS, "bin", "torchx"), *words, "--", self._bed.notes.path]

    def _submitit(self, *srun_arguments: str) -> list[str]:
        program = os.path.join(PROGRAMS, "submitit_job.py")
        words = [self._new_folder("submitit"), self._bed.notes.path, *srun_arguments]
        return [os.path.join(PEERS, "bin", "python"), program, *words]

    def _new_folder(self, name: str) -> str:
        self._count += 1
        return os.path.join(self._bed.cluster.shared, "%s-%d" % (name, self._count))


def make_environment() -> str | None:
    """Why there is none, or None. Made anew when its pins have changed."""
    with open(PINS, encoding="utf-8") as file:
        pins = file.read()
    made = os.path.join(PEERS, "pins.txt")
    if os.path.exists(made):
        with open(made, encoding="utf-8") as file:
            if file.read() == pins:
                return None
    pip = [os.path.join(PEERS, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for argv in ([sys.executable, "-m", "venv", "--clear", PEERS], [*pip, "--requirement", PINS]):
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            return (done.stderr.strip() or done.stdout.strip()).splitlines()[-1]
    with open(made, "w", encoding="utf-8") as file:
        file.write(pins)
    return None


def versions() -> Mapping[str, str]:
    if not os.path.exists(os.path.join(PEERS, "pins.txt")):
        return {}
    with open(PINS, encoding="utf-8") as file:
        pins = [line.strip().split("==") for line in file if "==" in line]
    return dict(pins)


def contest(bench: Bench, bed: Bed) -> dict[str, list[dict[str, object]]]:
    """Every story; puts table and limit into `bench`."""
    trouble = make_environment()
    if trouble:
        print("torchx and submitit are left out: %s" % trouble)
    peers = Peers(bed)
    rounds({name: told(peers, name, command) for name, command in peers.ways().items()}, bench.count(4, 1), warm=0)
    for name, command in peers.endless().items():
        peers.tell(name, command)
    report(bench, peers.stories)
    return {name: [story._asdict() for story in stories] for name, stories in peers.stories.items()}


def told(peers: Peers, name: str, command: Callable[[], list[str]]) -> Callable[[], float]:
    return lambda: peers.tell(name, command)


def report(bench: Bench, stories: Mapping[str, list[Story]]) -> None:
    bench.table(
        "2 × 2 ranks of which one fails, by who submits", HEAD, [row(name, told) for name, told in stories.items()]
    )
    dead = [FOREVER if story.dead is None else story.dead for story in stories[OURS]]
    bench.limit("failure to all ranks dead, worst of %d" % len(dead), max(dead), ALL_DEAD_SECONDS, "s")
    bench.limit("processes left over on the nodes", max(story.left for story in stories[OURS]), 0, "processes")


def row(name: str, stories: list[Story]) -> list[str]:
    until = [(story.submitting * 1e3, story.first, story.last) for story in stories]
    middle = [statistics.median(values) for values in zip(*until, strict=True)]
    ends = [_ending([story.dead for story in stories]), _ending([story.free for story in stories])]
    return [name, "%.0f" % middle[0], "%.2f" % middle[1], "%.2f" % middle[2], *ends, str(max(s.left for s in stories))]


def _ending(values: list[float | None]) -> str:
    happened = [value for value in values if value is not None]
    return "%.2f" % statistics.median(happened) if len(happened) == len(values) else "not within %g s" % FOREVER
