"""Checks on a real Slurm: what the cheap form adds to a run of four nodes, and how long the whole form takes."""

from __future__ import annotations

import glob
import importlib.util
import json
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from harness import Bench, contest_rows, interval, rounds
from slurm_bed import PROGRAMS, Bed

NODES = 4
CHEAP, NO_CHECK = "worldsize run", "worldsize run --no-check"
ALONE, OF_JOB = "worldsize check -w 4x1", "worldsize check job.yml"
_FIRST = os.path.join(PROGRAMS, "first.sh")
_TRAIN = """\
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
"""
_JOB = """\
command: python train.py
code: .
distribution: {type: pytorch, process_count_per_instance: 1}
resources: {instance_count: 4}
"""


class Checks:
    """Commands on the cluster; keeps the seconds that each record tells."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._project = bed.project("check", {"train.py": _TRAIN, "job.yml": _JOB})
        self.records: dict[str, list[float]] = {}

    def first_lines(self, name: str, *options: str) -> Callable[[], float]:
        """Seconds from the command's start to the first line of the last rank."""
        words = ("run", "-w", "%dx1" % NODES, *options, "--", "bash", _FIRST, self._bed.notes.path)

        def measure() -> float:
            self._bed.notes.clear()
            began = time.time()
            self._command(name, *words)
            return max(self._bed.notes.wait("rank", NODES)) - began

        return measure

    def whole(self, name: str, *words: str) -> Callable[[], float]:
        """Seconds of the whole command."""
        return lambda: self._command(name, "check", *words)

    def _command(self, name: str, *words: str) -> float:
        took = self._bed.run(self._bed.worldsize, *words, cwd=self._project)
        (newest,) = sorted(glob.glob(os.path.join(self._bed.cluster.shared, "home", "runs", "2*")))[-1:]
        path = os.path.join(newest, "attempt-0", "check.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.records.setdefault(name, []).append(json.load(file)["seconds"])
        self._bed.wait_calm()
        return took


def contest(bench: Bench, bed: Bed) -> dict[str, Any]:
    """Seconds by contestant and round; puts tables and limits into `bench`."""
    checks = Checks(bed)
    runs = {CHEAP: checks.first_lines(CHEAP), NO_CHECK: checks.first_lines(NO_CHECK, "--no-check")}
    sample = rounds(runs, bench.count(20, 3))
    title = "From the command to the last rank's first line on four Slurm nodes"
    bench.table(title, ["command", "median ms", "10 % to 90 %", "over --no-check"], contest_rows(sample, [NO_CHECK]))
    more = interval([(a - b) * 1e3 for a, b in zip(sample[CHEAP], sample[NO_CHECK], strict=True)])
    inside = interval([seconds * 1e3 for seconds in checks.records[CHEAP]])
    rows = [["more than with --no-check", str(more)], ["the check itself, by its record", str(inside)]]
    bench.table("What the cheap form adds", ["", "ms"], rows)
    bench.limit("first lines on four nodes, with the cheap form", more.median, 500, "ms more")
    whole = {ALONE: checks.whole(ALONE, "-w", "%dx1" % NODES)}
    if importlib.util.find_spec("torch"):
        whole[OF_JOB] = checks.whole(OF_JOB, "job.yml")
    found = rounds(whole, bench.count(5, 1))
    medians = {name: [statistics.median(each) for each in (checks.records[name], found[name])] for name in whole}
    rows = [[name, *("%.1f" % seconds for seconds in each)] for name, each in medians.items()]
    bench.table("The whole form on four Slurm nodes (medians)", ["command", "the check, s", "the command, s"], rows)
    for name in whole:
        bench.limit("%s, the check itself" % name, medians[name][0], 30, "s")
    return {"first lines": sample, "whole": found, "records": checks.records}
