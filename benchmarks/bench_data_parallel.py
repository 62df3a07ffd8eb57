"""A script for one process under --data-parallel against the same script with DistributedDataParallel by hand.

Two ranks on this machine, gloo, one thread each, a small convolutional network. The median step of each run counts, in
turns; then the whole command with a single pass over the data, which shows what starting costs beyond by hand.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import sys

from harness import Bench, contest_rows, ratio, rounds, run

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "one_process.py")
OURS = "--data-parallel, unchanged"
BY_HAND = "DistributedDataParallel by hand"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, help="steps of each run")


def main() -> None:
    with Bench("data_parallel", __doc__, configure) as bench:
        if importlib.util.find_spec("torch") is None:
            sys.exit("bench_data_parallel.py needs torch: run it with .venv/bin/python after `make setup`")
        steps = bench.options.steps or (60 if bench.quick else 100)
        project, target = bench.project("project"), os.path.join(bench.work, "steps.json")
        environ = bench.environ(OMP_NUM_THREADS="1")
        common = [bench.worldsize, "run", "-q", "-w", "1x2"]

        def whole(count: int, by_hand: bool) -> float:
            words = ["--", "python", PROGRAM, str(count), target]
            return run([*common, *words, "ddp"] if by_hand else [*common, "--data-parallel", *words], environ, project)

        def step(by_hand: bool) -> float:
            whole(steps, by_hand)
            with open(target, encoding="utf-8") as file:
                seconds: list[float] = json.load(file)["seconds"]
            return statistics.median(seconds)

        head = ["two ranks", "median ms", "10 % to 90 %", "over by hand"]
        sample = rounds({OURS: lambda: step(False), BY_HAND: lambda: step(True)}, bench.count(60, 3))
        bench.table("A step, %d steps a run" % steps, head, contest_rows(sample, [BY_HAND]))
        found = ratio(sample, OURS, BY_HAND)
        bench.limit("a step over the hand-written one's", found.median, 1.02)
        bench.limit("the upper end of its interval", found.high, 1.05)
        starts = rounds({OURS: lambda: whole(1, False), BY_HAND: lambda: whole(1, True)}, bench.count(20, 3))
        bench.table("The whole command, one pass of five steps", head, contest_rows(starts, [BY_HAND]))
        more = statistics.median(a - b for a, b in zip(starts[OURS], starts[BY_HAND], strict=True))
        bench.limit("start-up beyond the hand-written one's", more * 1000, 100, "ms")
        bench.finish({"step": sample, "start": starts})


if __name__ == "__main__":
    main()
