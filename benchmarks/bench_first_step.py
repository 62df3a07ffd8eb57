"""From Enter to the end of the last rank's first training step: ranks that are forked from one process of their node
(warm), ranks that start plainly (cold), torchrun, a bare shell loop, mpirun and srun.

All run the same program (programs/first_step.py): import torch, build a model and an optimizer, meet by gloo, take a
step. Besides the time: CPU seconds of the whole command, launcher and all, and each rank's memory (PSS), measured while
all ranks are there. With --module transformers the program imports that, too.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import NamedTuple

from harness import BIN, Bench, contest_rows, ratio, rounds

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "first_step.py")
WARM, COLD = "worldsize run, warm", "worldsize run, cold"
TORCHRUN, LOOP, MPIRUN = "torchrun", "bare shell loop", "mpirun"
_PR_SET_CHILD_SUBREAPER = 36


class Start(NamedTuple):
    """Seconds until the last rank's first step was done; CPU seconds of all processes; bytes of memory per rank."""

    seconds: float
    cpu: float
    memory: float


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shapes", default="1x2,1x4,1x8,2x4", help="nodes x ranks (default: %(default)s)")
    parser.add_argument("--module", default="", help="a further module that the program imports")
    parser.add_argument("--python", default="", help="the ranks' Python, with torchrun beside it (default: this one)")
    parser.add_argument("--slurm", action="store_true", help="on 2 nodes x 2 ranks of a Slurm cluster alone, with srun")


def main() -> None:
    with Bench("first_step", __doc__, configure) as bench:
        if importlib.util.find_spec("torch") is None:
            sys.exit("bench_first_step.py needs torch: run it with .venv/bin/python after `make setup`")
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if bench.options.slurm:
            contest_on_slurm(bench)
            return
        found = {shape: contest(bench, shape) for shape in bench.options.shapes.split(",")}
        limits(bench, found)
        bench.finish(found)


def contest(bench: Bench, shape: str) -> dict[str, list[Start]]:
    nodes, ranks = map(int, shape.split("x"))
    project = bench.project("project-" + shape)
    shutil.copy(PROGRAM, os.path.join(project, "train.py"))
    starts: dict[str, list[Start]] = {}

    def timed(name: str, *argv: str, **environ: str) -> float:
        start = measure(bench, project, argv, {**bench.environ(), "OMP_NUM_THREADS": "1", **environ}, nodes * ranks)
        starts.setdefault(name, []).append(start)
        return start.seconds

    python = bench.options.python or "python"
    program = ["train.py", "OUT", *filter(None, [bench.options.module])]
    command = [bench.worldsize, "run", "-w", shape]
    modules = "[torch, torch._dynamo, %s]" % bench.options.module if bench.options.module else "auto"
    contestants = {
        WARM: lambda: timed(WARM, *command, "--set", "preload=" + modules, "--", python, *program),
        COLD: lambda: timed(COLD, *command, "--set", "preload=off", "--", python, *program),
    }
    if nodes == 1:
        port = str(free_port())
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        torchrun = [
            os.path.join(os.path.dirname(bench.options.python) or BIN, "torchrun"),
            "--nproc-per-node=%d" % ranks,
            "--master-port",
            port,
            *program,
        ]
        contestants[TORCHRUN] = lambda: timed(TORCHRUN, *torchrun)
        line = "for i in $(seq 0 %d); do RANK=$i WORLD_SIZE=%d %s %s & done; wait"
        loop = ["/bin/sh", "-c", line % (ranks - 1, ranks, python, " ".join(program))]
        contestants[LOOP] = lambda: timed(LOOP, *loop, **place)
        if shutil.which("mpirun"):
            words = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), python, *program]
            contestants[MPIRUN] = lambda: timed(MPIRUN, *words, **place)
    sample = rounds(contestants, bench.count(10, 3))
    show(bench, shape, sample, {name: values[-len(sample[name]) :] for name, values in starts.items()})
    return {name: values[-len(sample[name]) :] for name, values in starts.items()}


def contest_on_slurm(bench: Bench) -> None:
    """The same on a cluster of the tests', whose nodes share this machine: what srun starts imports by itself."""
    from slurm_bed import Flavour, open_bed

    with open_bed(bench, Flavour(nodes=2, accounting=False)) as bed:
        project = bed.project("first", {})
        shutil.copy(PROGRAM, os.path.join(project, "train.py"))
        out = os.path.join(project, "out")
        place = {"MASTER_ADDR": bed.cluster.node_names[0], "MASTER_PORT": "29511", "OMP_NUM_THREADS": "1"}

        def timed(*argv: str) -> float:
            shutil.rmtree(out, ignore_errors=True)
            os.mkdir(out)
            began = time.time()
            bed.run(*argv, "python", "train.py", out, cwd=project, environ={**bed.environ, **place})
            bed.wait_calm()
            return max(json.load(open(os.path.join(out, name)))["done"] for name in os.listdir(out)) - began

        command = [bench.worldsize, "run", "-w", "2x2"]
        contestants = {
            WARM: lambda: timed(*command, "--set", "preload=auto", "--"),
            COLD: lambda: timed(*command, "--set", "preload=off", "--"),
            "srun": lambda: timed("srun", "--nodes=2", "--ntasks=4", "--ntasks-per-node=2"),
        }
        sample = rounds(contestants, bench.count(10, 3))
        head = ["command", "median s", "10 % to 90 %", "over srun"]
        bench.table("First step on Slurm, 2 x 2", head, contest_rows(sample, ["srun"], unit=1.0))
        bench.finish(sample)


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port: int = server.getsockname()[1]
        return port


def measure(bench: Bench, project: str, argv: tuple[str, ...], environ: Mapping[str, str], ranks: int) -> Start:
    """One start. CPU is that of all descendants, which this process adopts: a run's agents are nobody's children."""
    out = os.path.join(bench.work, "out")
    shutil.rmtree(out, ignore_errors=True)
    os.mkdir(out)
    words = [word.replace("OUT", out) for word in argv]
    before, began = cpu_of_children(), time.time()
    done = subprocess.run(words, env=environ, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode:
        raise RuntimeError("%s\nended with code %d:\n%s" % (words, done.returncode, done.stderr.decode()[-2000:]))
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    found = [json.load(open(os.path.join(out, name))) for name in os.listdir(out)]
    if len(found) != ranks:
        raise RuntimeError("%s: %d ranks of %d took a step" % (words, len(found), ranks))
    memory = statistics.mean(each["memory"] for each in found)
    return Start(max(each["done"] for each in found) - began, cpu_of_children() - before, memory)


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(bench: Bench, shape: str, sample: Mapping[str, list[float]], starts: Mapping[str, list[Start]]) -> None:
    bases = [name for name in (TORCHRUN, LOOP, COLD) if name in sample]
    head = ["command", "median s", "10 % to 90 %", *("over " + base for base in bases), "CPU s", "MiB per rank"]
    rows = contest_rows(sample, bases, unit=1.0)
    for row in rows:
        values = starts[row[0]]
        row.append("%.1f" % statistics.median(each.cpu for each in values))
        row.append("%.0f" % (statistics.median(each.memory for each in values) / (1 << 20)))
    bench.table("First step, %s" % shape.replace("x", " × "), head, rows)


def limits(bench: Bench, found: Mapping[str, Mapping[str, list[Start]]]) -> None:
    """What was asked for, of the shapes that were measured."""
    for shape, what, name, base, field, most in (
        ("1x4", "first step over torchrun", WARM, TORCHRUN, "seconds", 0.4),
        ("1x4", "first step over the bare loop", WARM, LOOP, "seconds", 0.6),
        ("1x4", "CPU over the bare loop", WARM, LOOP, "cpu", 0.35),
        ("1x4", "memory per rank over the bare loop", WARM, LOOP, "memory", 0.45),
        ("1x8", "first step over the bare loop", WARM, LOOP, "seconds", 0.4),
        ("1x4", "cold over the bare loop", COLD, LOOP, "seconds", 1.03),
    ):
        if shape in found and base in found[shape]:
            sample = {each: [getattr(start, field) for start in found[shape][each]] for each in (name, base)}
            bench.limit("%s, %s" % (shape, what), ratio(sample, name, base).median, most)


if __name__ == "__main__":
    main()
