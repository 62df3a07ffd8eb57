"""From typing to exit: `worldsize run -w 1x2 -- python noop.py` against mpirun, torchrun and a bare shell loop.

worldsize writes a run directory and snapshots the code in that time; the others start two processes. All contestants
find the same `python`, that of this environment. worldsize runs from this checkout, which it looks through for changes,
and as a user has it, installed by pip in an environment of its own. Then, where worldsize's time goes: stage by stage
(see stages.py), and which imports it pays for.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence

import stages
from harness import BIN, CHECKOUT, Bench, contest_rows, ratio, rounds, run

NOOP = ("python", "noop.py")
WORLDSIZE = "worldsize run -w 1x2 -- python noop.py"
INSTALLED = "the same, installed by pip"
BARE = "one bare python noop.py"
MPIRUN = "mpirun -np 2 python noop.py"
LOOP = "bare shell loop"
BOTH = "mpirun and two bare Pythons"
TORCHRUN = "torchrun --nproc-per-node=2 noop.py"
_IMPORT = re.compile(r"import time:\s+(\d+) \|\s+(\d+) \|(\s+)(\S+)")


def main() -> None:
    with Bench("launch", __doc__) as bench:
        project = bench.project("project", noop="pass\n")
        sample = contest(bench, project)
        torchrun = contest_torchrun(bench, project)
        budget = stage_budget(bench, project)
        import_table(bench, project)
        if MPIRUN in sample:
            bench.limit("launch of 2 ranks, over mpirun", ratio(sample, WORLDSIZE, MPIRUN).median, 2.0)
            sample[BOTH] = [a + 2 * b for a, b in zip(sample[MPIRUN], sample[BARE], strict=True)]
            for name in (WORLDSIZE, INSTALLED):
                where = "" if name == WORLDSIZE else ", installed by pip"
                bench.limit("launch of 2 ranks%s, over %s" % (where, BOTH), ratio(sample, name, BOTH).median, 1.0)
        bench.finish({"launch": sample, "torchrun": torchrun, "stages": budget})


def contest(bench: Bench, project: str) -> dict[str, list[float]]:
    environ = bench.environ()

    def timed(*argv: str) -> Callable[[], float]:
        return lambda: run(argv, environ, project)

    installed = install(bench)
    contestants = {
        WORLDSIZE: timed(bench.worldsize, "run", "-w", "1x2", "--", *NOOP),
        INSTALLED: timed(installed, "run", "-w", "1x2", "--", *NOOP),
    }
    if shutil.which("mpirun"):
        contestants[MPIRUN] = timed("mpirun", "-np", "2", *NOOP)
    else:
        print("mpirun is not installed: left out")
    contestants[LOOP] = timed("/bin/sh", "-c", "for i in 0 1; do %s & done; wait" % " ".join(NOOP))
    contestants[BARE] = timed(*NOOP)
    sample = rounds(contestants, bench.count(100, 7), warm=2)
    bases = [base for base in (MPIRUN, LOOP) if base in sample]
    head = ["command", "median ms", "10 % to 90 %", *("over " + base.split(" -")[0] for base in bases)]
    bench.table("Start and end of 2 ranks that do nothing", head, contest_rows(sample, bases))
    return sample


def install(bench: Bench) -> str:
    """Install this checkout as a user would; the path of its command."""
    place = os.path.join(bench.work, "installed")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    pip = [os.path.join(place, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, CHECKOUT], check=True)
    return os.path.join(place, "bin", "worldsize")


def contest_torchrun(bench: Bench, project: str) -> dict[str, list[float]]:
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: torchrun left out")
        return {}
    environ = bench.environ()
    torchrun = [os.path.join(BIN, "torchrun"), "--nproc-per-node=2", "noop.py"]
    contestants = {
        WORLDSIZE: lambda: run([bench.worldsize, "run", "-w", "1x2", "--", *NOOP], environ, project),
        TORCHRUN: lambda: run(torchrun, environ, project),
    }
    sample = rounds(contestants, bench.count(10, 2))
    head = ["command", "median ms", "10 % to 90 %", "over worldsize"]
    bench.table("The same against torchrun", head, contest_rows(sample, [WORLDSIZE]))
    return sample


def stage_budget(bench: Bench, project: str) -> dict[str, list[float]]:
    """Seconds in each stage, run by run; and what watching them costs, against the command itself in turns."""
    traces: list[stages.Trace] = []
    environ = bench.environ()
    words = ["run", "-w", "1x2", "--", *NOOP]

    def watched() -> float:
        traces.append(stages.trace(words, environ, project))
        return traces[-1].total

    plain = lambda: run([bench.worldsize, *words], environ, project)  # noqa: E731
    sample = rounds({"watched": watched, "plain": plain}, bench.count(60, 7), warm=2)
    spans = {name: [trace.spans[name] for trace in traces[2:]] for name in stages.STAGES}
    rows = []
    total = 0.0
    for name, values in spans.items():
        median = statistics.median(values) * 1e3
        total += median
        rows.append([name, "%.1f" % median, "%.1f" % total])
    bench.table("Where the time goes (medians)", ["stage", "ms", "until then"], rows)
    cost = [a - b for a, b in zip(sample["watched"], sample["plain"], strict=True)]
    print("watching the stages costs %.1f ms of this\n" % (statistics.median(cost) * 1e3))
    return spans


def import_table(bench: Bench, project: str) -> None:
    """What the command imports beyond a bare interpreter, each with what it pulls in, from `-X importtime`."""
    script = [bench.worldsize, "run", "-w", "1x2", "--", *NOOP]
    runs = [_imports(bench, project, script) for _ in range(bench.count(15, 3))]
    bare = set(_imports(bench, project, ["-c", "pass"]))
    names = [name for name in runs[0] if name not in bare]
    own = {name: statistics.median(each[name][0] for each in runs if name in each) for name in names}
    whole = {name: statistics.median(each[name][1] for each in runs if name in each) for name in names}
    rows = [
        [name, "%.2f" % (own[name] / 1e3), "%.2f" % (whole[name] / 1e3)]
        for name in sorted(names, key=lambda name: -own[name])
    ]
    shown = [*rows[:15], ["all %d modules" % len(rows), "%.2f" % (sum(own.values()) / 1e3), ""]]
    bench.table(
        "The dearest imports, slowed a little by watching", ["module", "itself ms", "with what it pulls in"], shown
    )


def _imports(bench: Bench, project: str, words: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Microseconds, itself and in all, of each module that the command's own process imports."""
    argv = [sys.executable, "-X", "importtime", *words]
    done = subprocess.run(argv, env=bench.environ(), cwd=project, capture_output=True, text=True, check=True)
    return {found[4]: (int(found[1]), int(found[2])) for found in _IMPORT.finditer(done.stderr)}


if __name__ == "__main__":
    main()
