"""What checks cost: runs on this machine nothing, runs on four Slurm nodes the cheap form, and `worldsize check`.

Also the reading of scripts, and the head's own time for 64 and 1,000 nodes. The Slurm part starts the test suite's
cluster of four nodes, whose nodes share this machine's cores; that needs root and the packages which `make test`
installs.
"""

from __future__ import annotations

import glob
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable

import check_head
import check_on_slurm
import slurm_bed
from harness import CHECKOUT, Bench, contest_rows, interval, ratio, rounds, run

WITHOUT = ", --no-check"
LOCAL = {
    "run -- true": ("--", "true"),
    "run -w 2x2 -- true": ("-w", "2x2", "--", "true"),
    "run -w 1x2 -- python noop.py": ("-w", "1x2", "--", "python", "noop.py"),
}
DRY = ("--dry-run", "-w", "2x2", "--", "python", "train.py")
_READ = """\
import sys, time
import worldsize.service.submission.submit
began = time.process_time()
from worldsize.wings.checks.script_rows import ScriptRequest, script_facts, script_findings
loaded = time.process_time()
asked = ScriptRequest(sys.argv[1], ("python", sys.argv[2]), 2, 2, 4)
script_findings(asked), script_facts(asked)
print(loaded - began, time.process_time() - loaded)
"""


def main() -> None:
    with Bench("check", __doc__) as bench:
        found = {"local": local_contest(bench), "reading": reading(bench), "head": check_head.contest(bench)}
        missing = slurm_bed.missing()
        if missing:
            print("!!  NO SLURM CLUSTER HERE, so nothing of it is measured: %s" % "; ".join(missing), file=sys.stderr)
        else:
            with slurm_bed.open_bed(bench) as bed:
                found["slurm"] = check_on_slurm.contest(bench, bed)
        bench.finish(found)


def local_contest(bench: Bench) -> dict[str, list[float]]:
    """Seconds of runs here, without GPUs: nothing is checked, and of a script without frameworks nothing is read."""
    project = bench.project("project", noop="pass\n")
    environ = bench.environ()

    def timed(*words: str) -> Callable[[], float]:
        return lambda: run([bench.worldsize, "run", *words], environ, project)

    contestants = {}
    for name, words in LOCAL.items():
        contestants[name] = timed(*words)
        contestants[name + WITHOUT] = timed("--no-check", *words)
    sample = rounds(contestants, bench.count(40, 5), warm=2)
    rows = []
    for name in LOCAL:
        both = {each: sample[each] for each in (name, name + WITHOUT)}
        rows += contest_rows(both, [name + WITHOUT])
        bench.limit("%s, over --no-check" % name, ratio(sample, name, name + WITHOUT).median, 1.05)
    bench.table("Runs on this machine, without GPUs", ["command", "median ms", "10 % to 90 %", "over --no-check"], rows)
    return sample


def reading(bench: Bench) -> dict[str, dict[str, list[float]]]:
    """What the text of a script costs: the examples' scripts one by one, and a dry run of one, which reads it."""
    scripts = sorted(glob.glob(os.path.join(CHECKOUT, "examples", "*", "src", "*.py")))
    costs = {os.path.relpath(path, CHECKOUT): _read(bench, path) for path in scripts}
    longest = sorted(costs, key=lambda name: -statistics.median(costs[name]))[:5]
    rows = [[name, "%.1f" % (statistics.median(costs[name]) * 1e3)] for name in longest]
    shown = [
        *rows,
        [
            "median of %d scripts" % len(costs),
            "%.1f" % (statistics.median(map(statistics.median, costs.values())) * 1e3),
        ],
    ]
    bench.table("Reading a script, with the modules that read", ["script", "CPU ms"], shown)
    bench.limit("reading the longest of the examples", statistics.median(costs[longest[0]]) * 1e3, 100, "ms of CPU")
    project = os.path.join(bench.work, "example")
    shutil.copytree(os.path.join(CHECKOUT, "examples", "mnist", "src"), project)
    environ = bench.environ()
    dry = {
        "run --dry-run -w 2x2": lambda: run([bench.worldsize, "run", *DRY], environ, project),
        "with --no-check": lambda: run([bench.worldsize, "run", "--no-check", *DRY], environ, project),
    }
    sample = rounds(dry, bench.count(30, 4), warm=1)
    head = ["examples/mnist/src/train.py", "median ms", "10 % to 90 %", "over --no-check"]
    bench.table("A dry run of a script", head, contest_rows(sample, ["with --no-check"]))
    more = [(a - b) * 1e3 for a, b in zip(*sample.values(), strict=True)]
    bench.limit("dry run of a script, over --no-check", interval(more).median, 100, "ms more")
    return {"scripts": costs, "dry run": sample}


def _read(bench: Bench, path: str) -> list[float]:
    """CPU seconds of loading the modules and reading one script, in a process of its own each time."""
    argv = [sys.executable, "-c", _READ, os.path.dirname(path), os.path.basename(path)]
    said = [subprocess.check_output(argv, env=bench.environ(), text=True) for _ in range(bench.count(3, 1))]
    return [sum(map(float, text.split())) for text in said]


if __name__ == "__main__":
    main()
