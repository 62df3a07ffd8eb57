"""Run a tier of the tests in phases, try what failed once more, and close with one line.

Tests share the machine, two at a time; then those on Slurm, which mostly wait: three processes, each with a cluster of
its own, take files in turn, the longest first; then those that measure time, one by one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from scripts.testing.results import Results, after_second_try, closing_line, read_results, second_try, table_of_parts

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOTHING_COLLECTED = 5
LONGEST = "tests/slurm/test_random_faults.py"
SUMMARY = "WORLDSIZE_TEST_SUMMARY"
"""The file that this variable names is given the closing line too."""


class Phase(NamedTuple):
    """How some of the tests run; `share` is the part of the time that the phase may use where time is limited."""

    markers: str
    processes: tuple[str, ...]
    share: float
    first: tuple[str, ...] = ()


SHARED = Phase("not timing and not slurm", ("-n", "4", "--dist", "worksteal"), 0.6)
SLURM = Phase("slurm and not timing", ("-n", "4", "--dist", "loadfile", "--no-loadscope-reorder"), 0.9, (LONGEST,))
TIMING = Phase("timing", ("-p", "no:xdist"), 1.0)
PHASES = (SHARED, SLURM, TIMING)


class Selection(NamedTuple):
    """What to run.

    tier      `standard`, `rest` (what that leaves out) or `all`
    parts     only these; none: all
    order     only these files and ids, in this order; None: all
    minutes   no test begins later than this after the first; None: no limit
    """

    tier: str = "standard"
    parts: tuple[str, ...] = ()
    order: tuple[str, ...] | None = None
    minutes: float | None = None


def run_selection(selection: Selection, arguments: Sequence[str], name: str = "") -> int:
    """Run it; the exit code of the command."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="worldsize-tests-") as folder:
        results, codes = _run_phases(selection, arguments, folder)
        again = second_try(results)
        if again:
            results = after_second_try(results, _passed_alone(again, folder))
    for row in _table(results):
        print(row)
    line = closing_line(results, time.monotonic() - began, name)
    print(line, flush=True)
    if os.environ.get(SUMMARY):
        with open(os.environ[SUMMARY], "a", encoding="utf-8") as file:
            file.write(line + "\n")
    return exit_code(results, codes)


def exit_code(results: Results, codes: Sequence[int]) -> int:
    """0 if every test passed, at once or when tried again; pytest's 5 if there was none."""
    if results.failed:
        return 1
    broken = [code for code in codes if code not in (0, 1, NOTHING_COLLECTED)]
    if broken:
        return broken[0]
    # pytest failed without a test that did: under CI, a skipped one.
    if 1 in codes and not any(each.outcome == "unstable" for each in results.outcomes):
        return 1
    return 0 if results.outcomes or results.left_out else NOTHING_COLLECTED


def _run_phases(selection: Selection, arguments: Sequence[str], folder: str) -> tuple[Results, list[int]]:
    began = time.time()
    codes, reports = [], []
    for number, phase in enumerate(PHASES):
        reports.append(os.path.join(folder, "%d.jsonl" % number))
        words = ["--tier", selection.tier, "--outcomes", reports[-1], "-m", phase.markers, *phase.processes]
        words += [word for part in selection.parts for word in ("--part", part)]
        if selection.order is not None:
            words += ["--order", _written(selection.order, folder)]
        if selection.minutes is not None:
            words += ["--until", "%.3f" % (began + 60 * selection.minutes * phase.share)]
        words += _paths(selection, phase)
        codes.append(_pytest([*words, *arguments]))
        if codes[-1] not in (0, 1, NOTHING_COLLECTED):
            break
    return read_results(reports), codes


def _paths(selection: Selection, phase: Phase) -> list[str]:
    """Where pytest looks: in the files that are asked for, else everywhere, what takes longest first."""
    if selection.order is None:
        return [*phase.first, "tests"]
    return list(dict.fromkeys(name.split("::")[0] for name in selection.order))


def _written(order: Sequence[str], folder: str) -> str:
    path = os.path.join(folder, "order.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(list(order), file)
    return path


def _passed_alone(ids: Sequence[str], folder: str) -> list[str]:
    """The tests that pass when nothing runs beside them."""
    report = os.path.join(folder, "again.jsonl")
    print("==> once more, alone: %s" % " ".join(ids), flush=True)
    _pytest(["-p", "no:xdist", "--outcomes", report, *ids])
    return [each.id for each in read_results([report]).outcomes if each.outcome == "passed"]


def _pytest(words: Sequence[str]) -> int:
    return subprocess.call([sys.executable, "-m", "pytest", "-q", *words], cwd=ROOT)


def _table(results: Results) -> list[str]:
    sys.path.insert(0, os.path.join(ROOT, "tests"))
    from selection import part_of

    return table_of_parts(results, {each.id: part_of(each.id) for each in results.outcomes if each.outcome != "error"})
