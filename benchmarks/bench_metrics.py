"""What it costs that agents sample their ranks: the CPU time of an agent with samples and without, on two runs at the
same time, and the size of the files.

A rank is a shell with seven processes below it, all of which sleep: what is read of a process does not depend on what
it does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import NamedTuple

from harness import CHECKOUT, Bench

RANKS = (1, 8, 32)
PROCESSES = 8
SHARE = 0.005


class Measured(NamedTuple):
    """A pair of runs. with_samples, without: seconds of CPU of their agents; size: bytes of samples."""

    ranks: int
    seconds: float
    with_samples: float
    without: float
    samples: int
    size: int

    @property
    def share(self) -> float:
        return (self.with_samples - self.without) / self.seconds


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, help="how long each pair of runs is watched")


def main() -> None:
    with Bench("metrics", __doc__, configure) as bench:
        seconds = bench.options.seconds or (20.0 if bench.quick else 90.0)
        found = [measure(bench, ranks, seconds) for ranks in RANKS]
        rows = [
            [
                "%d" % each.ranks,
                "%d" % (each.ranks * PROCESSES),
                "%.0f" % (each.with_samples * 1e3),
                "%.0f" % (each.without * 1e3),
                "%.2f" % (each.share * 100),
                "%d" % each.samples,
                "%d" % each.size,
            ]
            for each in found
        ]
        head = ["ranks", "processes", "CPU ms with", "without", "% of a core", "samples", "bytes"]
        bench.table("An agent within %g s of its ranks' start" % seconds, head, rows)
        for each in found:
            bench.limit("sampling %d ranks, of a core" % each.ranks, each.share * 100, SHARE * 100, "%")
        bench.finish({"pairs": [each._asdict() for each in found]})


def measure(bench: Bench, ranks: int, seconds: float) -> Measured:
    """Watch two runs for so long, from their ranks' start."""
    runs = [Watched(bench, ranks, name, metrics) for name, metrics in (("with", True), ("without", False))]
    try:
        agents = [run.agent() for run in runs]
        time.sleep(seconds)
        sampled, plain = map(cpu_seconds, agents)
        lines = runs[0].samples()
        return Measured(ranks, seconds, sampled, plain, lines.count(b'{"sample"'), len(lines))
    finally:
        for run in runs:
            run.end()


class Watched:
    """A run of so many ranks on one node."""

    def __init__(self, bench: Bench, ranks: int, name: str, metrics: bool) -> None:
        self._home = os.path.join(bench.work, "home-%s-%d" % (name, ranks))
        self._project = bench.project("project-%s-%d" % (name, ranks))
        self._environ = bench.environ(WORLDSIZE_HOME=self._home, PYTHONPATH=os.path.join(CHECKOUT, "src"))
        with open(os.path.join(self._project, "worldsize.toml"), "w", encoding="utf-8") as file:
            file.write("[compute.local]\nmetrics = %s\n" % str(metrics).lower())
        script = "for i in $(seq %d); do sleep 3600 & done; wait" % (PROCESSES - 1)
        self._run = self._worldsize("submit", "-w", "1x%d" % ranks, "--", "sh", "-c", script).strip()
        self._root = os.path.join(self._home, "runs", self._run, "attempt-0")

    def _worldsize(self, *words: str) -> str:
        argv = [sys.executable, "-m", "worldsize", *words]
        done = subprocess.run(argv, env=self._environ, cwd=self._project, check=True, capture_output=True, text=True)
        return done.stdout

    def agent(self) -> int:
        """The process of its agent, once the ranks have started. RuntimeError after a minute."""
        path = os.path.join(self._root, "events", "node-0000.jsonl")
        for _ in range(600):
            events = [json.loads(line) for line in _read(path).splitlines()]
            if any(event["event"] == "ranks_started" for event in events):
                return int(events[0]["pid"])
            time.sleep(0.1)
        raise RuntimeError("the ranks did not start within a minute")

    def samples(self) -> bytes:
        return _read(os.path.join(self._root, "samples", "node-0000.jsonl"))

    def end(self) -> None:
        self._worldsize("cancel", "--now", self._run)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def cpu_seconds(pid: int) -> float:
    """What the threads of a process have taken, which all live: by the scheduler's own count, in nanoseconds."""
    tasks = "/proc/%d/task" % pid
    return sum(int(_read("%s/%s/schedstat" % (tasks, task)).split()[0]) for task in os.listdir(tasks)) / 1e9


if __name__ == "__main__":
    main()
