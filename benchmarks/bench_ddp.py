"""A training step through worldsize against one through torchrun: 2 ranks on this machine, gloo, a small model.

The same program (programs/train.py) runs under both in turns; what counts is the median step of each run, so the time
to start does not. Both launchers give each rank one thread here; the program says how many it had, and it is checked.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys

from harness import BIN, Bench, contest_rows, ratio, rounds, run

TRAIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "train.py")
WORLDSIZE = "worldsize run -w 1x2"
TORCHRUN = "torchrun --nproc-per-node=2"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, help="steps of each run")


def main() -> None:
    with Bench("ddp", __doc__, configure) as bench:
        if importlib.util.find_spec("torch") is None:
            sys.exit("bench_ddp.py needs torch: run it with .venv/bin/python after `make setup`")
        steps = bench.options.steps or (200 if bench.quick else 1000)
        sample, threads = contest(bench, steps)
        head = ["launcher", "median step, ms", "10 % to 90 %", "over torchrun"]
        title = "A step of DDP, %d steps a run, %s thread(s) a rank" % (steps, threads)
        bench.table(title, head, contest_rows(sample, [TORCHRUN]))
        found = ratio(sample, WORLDSIZE, TORCHRUN)
        bench.limit("a step over torchrun's, upper end of the interval", found.high, 1.05)
        bench.finish(sample)


def contest(bench: Bench, steps: int) -> tuple[dict[str, list[float]], int]:
    """Median seconds per step, run by run; threads per rank, equal in all runs."""
    project = bench.project("project")
    target = os.path.join(bench.work, "steps.json")
    environ = bench.environ()
    threads: set[int] = set()

    def step(*launcher: str) -> float:
        run([*launcher, TRAIN, str(steps), target], environ, project)
        with open(target, encoding="utf-8") as file:
            found = json.load(file)
        threads.add(found["threads"])
        os.unlink(target)
        seconds: list[float] = found["seconds"]
        return statistics.median(seconds)

    sample = rounds(
        {
            WORLDSIZE: lambda: step(bench.worldsize, "run", "-w", "1x2", "--", "python"),
            TORCHRUN: lambda: step(os.path.join(BIN, "torchrun"), "--nproc-per-node=2"),
        },
        bench.count(20, 3),
    )
    if len(threads) > 1:
        raise RuntimeError("the launchers gave different numbers of threads: %s" % sorted(threads))
    return sample, threads.pop()


if __name__ == "__main__":
    main()
