"""What does a logged value cost a step of a training: worldsize.log, MLflow in a run and outside, TensorBoard?

Each way is a run of one rank, in turns; the figure is the CPU time of the thread that logs. MLflow needs .venv-mlflow;
what is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

from harness import CHECKOUT, Bench, interval
from programs import log_calls

PROGRAM = os.path.abspath(log_calls.__file__)
BASE = "mlflow_plain_metric"
LIMITS = {"worldsize_log": 50.0, "worldsize_log_tensor": 200.0, "mlflow_metric": 2000.0}
"""Microseconds of CPU: a step of a training takes milliseconds at the least."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=500, help="of each round (default: %(default)s)")
    parser.add_argument("--mlflow", default=os.path.join(CHECKOUT, ".venv-mlflow", "bin", "python"))


def main() -> None:
    with Bench("log", __doc__, configure) as bench:
        options, rounds = bench.options, bench.count(7, 2)
        folder = bench.project("steps")
        found: dict[str, list[list[float]]] = {}
        for _ in range(rounds):
            for way in [each.__name__ for each in log_calls.WAYS]:
                python = options.mlflow if way.startswith("mlflow") else sys.executable
                figures = one_run(bench, folder, python, way, options.calls)
                if figures:
                    found.setdefault(way, []).append(figures)
        base = statistics.median(thread for _, thread in found.get(BASE, [[0.0, 0.0]]))
        rows = []
        for way, figures in found.items():
            wall, thread = (interval([each[column] for each in figures]) for column in (0, 1))
            rows.append([way, str(thread), str(wall), "%.3f" % (thread.median / base) if base else ""])
        head = ["logged by", "CPU of the thread, µs", "wall, µs", "CPU over %s" % BASE]
        bench.table("One call with one value", head, rows)
        for way, most in LIMITS.items():
            if way in found:
                bench.limit("a call, %s" % way, statistics.median(thread for _, thread in found[way]), most, "µs")
        bench.finish(found)


def one_run(bench: Bench, folder: str, python: str, way: str, calls: int) -> list[float]:
    """Wall and CPU time of a call, the median of three rounds; none where what it needs is not installed."""
    words = [sys.executable, "-m", "worldsize", "run", "--", python, PROGRAM, way, str(calls), "3"]
    environ = bench.environ(PYTHONPATH=os.path.join(CHECKOUT, "src"))
    process = subprocess.run(words, env=environ, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for line in process.stdout.decode().splitlines():
        if line.rpartition("0:0: ")[2].startswith("[["):
            rounds = json.loads(line.rpartition("0:0: ")[2])
            return [statistics.median(column) for column in zip(*rounds, strict=True)]
    return []


if __name__ == "__main__":
    main()
