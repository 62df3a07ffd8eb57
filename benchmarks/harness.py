"""What every benchmark shares: commands timed in turns, ratios of neighbours, tables, one JSON file per benchmark.

Contestants run A B C A B C …, so that whatever else the machine does meets all of them alike. A ratio is taken within
each round, and what is shown is the median of the rounds' ratios with its 95 % bootstrap interval: two absolute times
from two quiet moments would say less.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

BIN = os.path.dirname(sys.executable)
CHECKOUT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(CHECKOUT, "build", "bench")
_RESAMPLES = 2000
_CHANGING = ("WORLDSIZE_", "OMPI_", "OMP_", "PYTHON")

Sample = Mapping[str, Sequence[float]]


class Interval(NamedTuple):
    """A median and the interval that holds it with 95 % confidence."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return "%.2f [%.2f, %.2f]" % self


class Limit(NamedTuple):
    """What was asked for, and what was measured: `figure` holds when it is at most `limit`."""

    what: str
    figure: float
    limit: float
    unit: str = "×"

    @property
    def holds(self) -> bool:
        return self.figure <= self.limit


def interval(values: Sequence[float]) -> Interval:
    """The median, and the quantiles of medians of samples drawn again from `values` (the same draw each time)."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    return Interval(statistics.median(values), medians[_RESAMPLES // 40], medians[-_RESAMPLES // 40])


def ratio(sample: Sample, name: str, base: str) -> Interval:
    """`name` over `base`, round by round."""
    return interval([a / b for a, b in zip(sample[name], sample[base], strict=True)])


def rounds(contestants: Mapping[str, Callable[[], float]], count: int, warm: int = 1) -> dict[str, list[float]]:
    """Run all contestants in turns, `count` rounds after `warm` ones that do not count; what each call returned.

    Every other round runs backwards, so that nobody always runs after the same neighbour.
    """
    names = list(contestants)
    sample: dict[str, list[float]] = {name: [] for name in names}
    for number in range(-warm, count):
        for name in names if number % 2 == 0 else reversed(names):
            value = contestants[name]()
            if number >= 0:
                sample[name].append(value)
        _progress(number + 1, count)
    return sample


def _progress(done: int, count: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r  round %d of %d%s" % (done, count, "\n" if done == count else ""))
        sys.stderr.flush()


def run(argv: Sequence[str], environ: Mapping[str, str], cwd: str, output: str = os.devnull) -> float:
    """Seconds from before the start of a program to after its end. RuntimeError when it fails, with what it printed."""
    program = argv[0] if os.sep in argv[0] else shutil.which(argv[0], path=environ["PATH"]) or argv[0]
    errors = tempfile.TemporaryFile()
    actions = [
        (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_DUP2, errors.fileno(), 2),
    ]
    before = os.getcwd()
    os.chdir(cwd)
    try:
        started = time.perf_counter()
        pid = os.posix_spawn(program, list(argv), environ, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        took = time.perf_counter() - started
    finally:
        os.chdir(before)
    if status:
        errors.seek(0)
        raise RuntimeError("%s\nended with status %d:\n%s" % (" ".join(argv), status, errors.read().decode()[-2000:]))
    return took


def pss(pid: int) -> int:
    """Bytes of memory: what a process has for itself, and its share of what it has together with others."""
    with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
        found = re.search(r"^Pss:\s+(\d+) kB", file.read(), re.MULTILINE)
    if found is None:
        raise RuntimeError("this kernel does not say what a process's share of memory is")
    return int(found[1]) * 1024


class Bench:
    """One benchmark's command line, work directory, and what it found."""

    def __init__(
        self, name: str, description: str, configure: Callable[[argparse.ArgumentParser], None] | None = None
    ) -> None:
        parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--quick", action="store_true", help="few repetitions: seconds, and wide intervals")
        parser.add_argument("--rounds", type=int, help="how often each contestant runs")
        parser.add_argument(
            "--work", default="/var/tmp", help="where the scratch directory is made (default: %(default)s)"
        )
        parser.add_argument("--json", default=os.path.join(RESULTS, name + ".json"), help="default: %(default)s")
        if configure:
            configure(parser)
        self.options = parser.parse_args()
        self.quick: bool = self.options.quick
        self.work = tempfile.mkdtemp(prefix="worldsize-bench-", dir=self.options.work)
        self.home = os.path.join(self.work, "home")
        self.worldsize = os.path.join(BIN, "worldsize")
        self.tables: list[dict[str, Any]] = []
        self.limits: list[Limit] = []
        self._name = name
        self._load = os.getloadavg()[0]

    def __enter__(self) -> Bench:
        print("%s\n1-minute load before: %.2f\n" % (machine(), self._load))
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.work, ignore_errors=True)

    def count(self, full: int, quick: int) -> int:
        """How many rounds: what was asked for, else `full`, or `quick` with --quick."""
        chosen: int = self.options.rounds or (quick if self.quick else full)
        return chosen

    def environ(self, **more: str) -> dict[str, str]:
        """This environment without what changes launchers or Python, this Python first on PATH, a store of our own."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_CHANGING)}
        kept["PATH"] = BIN + os.pathsep + kept.get("PATH", os.defpath)
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.getuid() == 0 else {}
        return {**kept, **root, "WORLDSIZE_HOME": self.home, **more}

    def project(self, name: str, **files: str) -> str:
        """A directory with these Python files: what a user's code is."""
        directory = os.path.join(self.work, name)
        os.makedirs(directory)
        for stem, text in files.items():
            with open(os.path.join(directory, stem + ".py"), "w", encoding="utf-8") as file:
                file.write(text)
        return directory

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.tables.append({"title": title, "head": list(head), "rows": [list(row) for row in rows]})
        print("%s\n%s\n" % (title, markdown(head, rows)), flush=True)

    def limit(self, what: str, figure: float, most: float, unit: str = "×") -> None:
        self.limits.append(Limit(what, figure, most, unit))

    def finish(self, sample: Mapping[str, Any]) -> None:
        """Say which limits hold; keep tables, limits and every single measurement."""
        self.table("Limits", ["what", "asked", "measured", "holds"], [limit_row(limit) for limit in self.limits])
        os.makedirs(os.path.dirname(os.path.abspath(self.options.json)), exist_ok=True)
        found = {
            "benchmark": self._name,
            "machine": machine(),
            "load_before": self._load,
            "quick": self.quick,
            "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "tables": self.tables,
            "limits": [{**limit._asdict(), "holds": limit.holds} for limit in self.limits],
            "sample": sample,
        }
        with open(self.options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
            file.write("\n")
        print("written: %s" % self.options.json)


def limit_row(limit: Limit) -> list[str]:
    return [
        limit.what,
        "≤ %g %s" % (limit.limit, limit.unit),
        "%.3g %s" % (limit.figure, limit.unit),
        "yes" if limit.holds else "NO",
    ]


def contest_rows(sample: Sample, bases: Sequence[str], unit: float = 1e3) -> list[list[str]]:
    """A row per contestant: median, fastest and slowest decile, and its ratio to each of `bases`."""
    rows = []
    for name, values in sample.items():
        ordered = sorted(values)
        spread = (ordered[len(ordered) // 10] * unit, ordered[-1 - len(ordered) // 10] * unit)
        ratios = ["1" if base == name else str(ratio(sample, name, base)) for base in bases]
        rows.append([name, "%.1f" % (statistics.median(values) * unit), "%.1f to %.1f" % spread, *ratios])
    return rows


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "| %s |" % " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    )


def machine() -> str:
    """The machine in general words: cores, system, Python."""
    cores = len(os.sched_getaffinity(0))
    return "%d core%s, %s, Python %s" % (cores, "" if cores == 1 else "s", _system(), platform.python_version())


def _system() -> str:
    try:
        release = platform.freedesktop_os_release()
        return "%s %s" % (release["NAME"].split()[0], release.get("VERSION_ID", ""))
    except (OSError, KeyError):
        return platform.system()
