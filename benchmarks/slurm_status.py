"""What the state of 500 runs costs beyond one squeue and one sacct: while all of them wait, and when all have ended.

`list` says the state; `status` also asks why the array waits, or what it used. Runs that were once seen to have ended
are not asked for again, and so the first look after the end is the dearest: it writes down 500 results. Nothing is
removed in between: ext4 is slow to make files for some seconds after it has removed many.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

from harness import Bench, contest_rows, interval, rounds
from slurm_bed import LATER, Bed

RUNS = 500
_JOB = """\
command: python train.py --seed ${{inputs.seed}}
code: .
inputs: {seed: 0}
matrix: {seed: [%s]}
""" % ", ".join("%d" % number for number in range(RUNS))
BARE = "squeue; sacct"
STATUS, LIST, ELEMENTS = "worldsize status ARRAY", "worldsize list", "worldsize list ARRAY"
WORDS = {STATUS: ("status",), LIST: ("list",), ELEMENTS: ("list",)}
WAITING, ENDED = "%d runs that wait" % RUNS, "%d runs that have ended, looked at for the first time" % RUNS
MOST_MS = 150
_COUNTED = '#!/bin/sh\necho "$0" >>%s\nexec %s "$@"\n'


class Array:
    """500 submitted runs, in a store of their own."""

    def __init__(self, bed: Bed, project: str) -> None:
        self._bed = bed
        self._project = project
        self.home = os.path.join(bed.cluster.shared, "home-%d" % len(os.listdir(bed.cluster.shared)))
        self.environ = {**bed.environ, "WORLDSIZE_HOME": self.home}
        self.run_id = self._answer(bed.worldsize, "submit", "matrix.yml").strip()
        self.job = bed.answer("squeue", "--noheader", "--format=%F").split()[0]

    def seconds(self, name: str) -> float:
        """What one look takes."""
        if name == BARE:
            looks = "squeue --all --array --states=all --jobs={0}; sacct --allocations --jobs={0}"
            return self._bed.run("sh", "-c", looks.format(self.job), cwd=self._project)
        words = [self._bed.worldsize, *WORDS[name], *([] if name == LIST else [self.run_id])]
        return self._bed.run(*words, cwd=self._project, environ=self.environ)

    def queries(self, name: str) -> dict[str, int]:
        """How often each of Slurm's programs is asked in one look."""
        folder = os.path.join(self.home, "counting")
        log = os.path.join(folder, "log")
        os.makedirs(folder)
        for program in ("squeue", "sacct", "scontrol", "sinfo"):
            path = os.path.join(folder, program)
            with open(path, "w") as file:
                file.write(_COUNTED % (log, shutil.which(program, path=self.environ["PATH"])))
            os.chmod(path, 0o755)
        environ = {**self.environ, "PATH": folder + os.pathsep + self.environ["PATH"]}
        words = [self._bed.worldsize, *WORDS[name], *([] if name == LIST else [self.run_id])]
        said = subprocess.run(words, env=environ, cwd=self._project, check=True, capture_output=True, text=True).stdout
        if name == ELEMENTS and said.count("QUEUED") + said.count("CANCELLED ") < RUNS:
            raise RuntimeError("not the state of %d runs:\n%s" % (RUNS, said[-2000:]))
        asked = []
        if os.path.exists(log):
            with open(log) as file:
                asked = [os.path.basename(line.strip()) for line in file]
        shutil.rmtree(folder)
        return {program: asked.count(program) for program in dict.fromkeys(asked)}

    def end(self) -> None:
        self._bed.answer("scancel", self.job)
        self._bed.wait_calm()

    def _answer(self, *argv: str) -> str:
        done = subprocess.run(argv, env=self.environ, cwd=self._project, capture_output=True, text=True, check=True)
        return done.stdout


def contest(bench: Bench, bed: Bed) -> dict[str, dict[str, list[float]]]:
    """Seconds by contestant and round; puts tables and limits into `bench`."""
    project = bed.project("status", {"train.py": "pass\n", "matrix.yml": _JOB}, LATER)
    array = Array(bed, project)
    names = [BARE, *WORDS]
    waiting = rounds({name: of(array, name) for name in names}, bench.count(20, 3))
    asked = {name: array.queries(name) for name in WORDS}
    array.end()
    ended = rounds({name: first_look(bed, project, name) for name in names}, bench.count(5, 2), warm=0)
    asked_ended = queries_of_ended(bed, project)
    for title, sample, queries in ((WAITING, waiting, asked), (ENDED, ended, asked_ended)):
        report(bench, title, sample, queries)
    return {"waiting": waiting, "ended": ended}


def of(array: Array, name: str) -> Callable[[], float]:
    return lambda: array.seconds(name)


def first_look(bed: Bed, project: str, name: str) -> Callable[[], float]:
    """Each time at new runs: what is once known to have ended is not asked for again."""

    def measure() -> float:
        array = Array(bed, project)
        array.end()
        took = array.seconds(name)
        return took

    return measure


def queries_of_ended(bed: Bed, project: str) -> dict[str, dict[str, int]]:
    found = {}
    for name in WORDS:
        array = Array(bed, project)
        array.end()
        found[name] = array.queries(name)
    return found


def report(bench: Bench, title: str, sample: dict[str, list[float]], queries: dict[str, dict[str, int]]) -> None:
    rows = contest_rows(sample, [BARE])
    for row in rows:
        asked = queries.get(row[0], {})
        row.append(", ".join("%d %s" % (count, program) for program, count in sorted(asked.items())))
    bench.table(title, ["command", "median ms", "10 % to 90 %", "over " + BARE, "asks"], rows)
    for name in (LIST, ELEMENTS):
        more = interval([(a - b) * 1e3 for a, b in zip(sample[name], sample[BARE], strict=True)])
        bench.limit("%s, %s, over %s" % (name, title, BARE), more.median, MOST_MS, "ms more")
    most = max(count for name in (LIST, ELEMENTS) for count in queries[name].values())
    bench.limit("queries of each program by list, %s" % title, most, 1, "queries")
