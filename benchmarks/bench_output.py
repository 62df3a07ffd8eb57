"""64 ranks × 10 MB of output: does every byte arrive, and does a rank pay more than writing to a file costs?

Each rank writes to its stdout and, in turns, the same to a file that it opened itself on the same disk, and measures
both (programs/writer.py). Then every log is compared, by its hash, with what was written. Every other run is followed:
the merged log of all ranks is made, and thrown away, at the same time.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import time
from typing import NamedTuple

from harness import Bench, interval
from programs import writer

NODES, PER_NODE = 16, 4
RANKS = NODES * PER_NODE
WAYS = {"lines": "lines of 100 bytes, each one write", "blocks": "blocks of 64 KiB"}


class Times(NamedTuple):
    """What one rank's writing took, in seconds: to its log, and to a file of its own."""

    log: float
    file: float


class Output(NamedTuple):
    """One run: `times` by way of writing and rank; `right` is how many logs have the right hash."""

    followed: bool
    seconds: float
    right: int
    times: dict[str, list[Times]]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--megabytes", type=float, default=10, help="output of each rank (default: %(default)s)")


def main() -> None:
    with Bench("output", __doc__, configure) as bench:
        megabytes = bench.options.megabytes
        runs = [one_run(bench, int(megabytes * 1e6), followed) for _ in range(bench.count(3, 1)) for followed in (1, 0)]
        head = ["written as", "a rank's seconds to its log", "to a file of its own", "log over file, median of ranks"]
        title = "What writing costs a rank, of %d at once, %g MB each" % (RANKS, megabytes)
        bench.table(title, head, [way_row(runs, way) for way in WAYS])
        rows = [run_row(each, megabytes) for each in runs]
        bench.table("Whole runs", ["merged log", "seconds", "MB/s", "logs with the right hash"], rows)
        wrong = sum(RANKS - each.right for each in runs)
        bench.limit("logs whose hash is wrong, of %d" % (RANKS * len(runs)), wrong, 0, "logs")
        for way in WAYS:
            bench.limit("%s to the log, over to a file" % way, statistics.median(ratios(runs, way)), 1.05)
        bench.finish({"runs": [each._asdict() for each in runs]})


def one_run(bench: Bench, size: int, followed: int) -> Output:
    """One run with a store of its own, which is thrown away."""
    environ = bench.environ(WORLDSIZE_HOME=os.path.join(bench.work, "home-%d" % len(os.listdir(bench.work))))
    target = bench.project(os.path.basename(environ["WORLDSIZE_HOME"]) + "-times")
    project = bench.project(os.path.basename(environ["WORLDSIZE_HOME"]) + "-code")
    words = [bench.worldsize, "run", *([] if followed else ["--quiet"]), "-w", "%dx%d" % (NODES, PER_NODE)]
    words += ["--", "python", os.path.abspath(writer.__file__), target, str(size)]
    started = time.perf_counter()
    done = subprocess.run(words, env=environ, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    took = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError("%s\n%s" % (" ".join(words), done.stderr[-2000:]))
    times = {way: [read_times(target, rank, way) for rank in range(RANKS)] for way in WAYS}
    right = sum(log_is_right(environ["WORLDSIZE_HOME"], rank, size) for rank in range(RANKS))
    shutil.rmtree(environ["WORLDSIZE_HOME"])
    return Output(bool(followed), took, right, times)


def read_times(target: str, rank: int, way: str) -> Times:
    with open(os.path.join(target, "rank-%05d.json" % rank), encoding="utf-8") as file:
        found = json.load(file)[way]
    return Times(sum(found["log"]), sum(found["file"]))


def log_is_right(home: str, rank: int, size: int) -> bool:
    runs = os.path.join(home, "runs")
    (run_id,) = (name for name in os.listdir(runs) if not name.startswith("."))
    expected, found = hashlib.sha256(), hashlib.sha256()
    for piece in writer.content(rank, size):
        expected.update(piece)
    with open(os.path.join(runs, run_id, "attempt-0", "logs", "rank-%05d.log" % rank), "rb") as file:
        while piece := file.read(1 << 20):
            found.update(piece)
    return found.digest() == expected.digest()


def ratios(runs: list[Output], way: str) -> list[float]:
    return [times.log / times.file for each in runs for times in each.times[way]]


def way_row(runs: list[Output], way: str) -> list[str]:
    log = statistics.median(times.log for each in runs for times in each.times[way])
    file = statistics.median(times.file for each in runs for times in each.times[way])
    return [WAYS[way], "%.3f" % log, "%.3f" % file, str(interval(ratios(runs, way)))]


def run_row(each: Output, megabytes: float) -> list[str]:
    rate = megabytes * RANKS / each.seconds
    return [
        "followed" if each.followed else "--quiet",
        "%.1f" % each.seconds,
        "%.0f" % rate,
        "%d of %d" % (each.right, RANKS),
    ]


if __name__ == "__main__":
    main()
