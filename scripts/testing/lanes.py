"""Run a tier of the tests in lanes side by side, try what failed once more, and close with one line.

Most tests take milliseconds. These come first, in a lane for each core, a share of the files each: to distribute them
one by one takes longer than most of them. The tier `fast` is these alone.

Most of the rest wait: for a scheduler, a node, a process to end. Those that train use all cores and only get into each
other's way. So these are in three lanes: `training`, as many at a time as keep the cores busy; `slurm`, each process
with a cluster of its own, which takes whole files, the longest first; and `others`. What goes by the clock comes last,
one by one: `timing`.
"""

from __future__ import annotations

import glob
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from scripts.testing.results import (
    Results,
    after_second_try,
    closing_line,
    progress_line,
    read_results,
    second_try,
    table_of_parts,
)
from scripts.testing.shares import share_of

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOTHING_COLLECTED = 5
INTERRUPTED = 130
LONGEST = "tests/chaos/test_slurm.py"
SUMMARY = "WORLDSIZE_TEST_SUMMARY"
"""The file that this variable names is given the closing line too."""

OUTCOMES = "WORLDSIZE_TEST_OUTCOMES"
"""The file that this variable names is given a line of JSON for each test (`make evidence`)."""

AT_THE_TERMINAL = {"--pdb", "--trace", "-s", "--capture=no"}
"""pytest's options with which a test uses the terminal: lanes run one after the other then, and print at once."""

PROGRESS_SECONDS = 30.0
STACK_SECONDS = 10.0
"""The most that a process may take to write its stacks."""

CORES = min(len(os.sched_getaffinity(0)), 8)


QUICK, BESIDE, ALONE = 0, 1, 2
"""Stages: tests that take milliseconds; those that wait or train, side by side; those that go by the clock."""


class Lane(NamedTuple):
    """Tests that run in one call of pytest.

    markers   which tests these are
    options   how pytest runs them
    found     what a file of such tests, or a conftest.py beside or above it, has in its text or its path
    never     what the path of no such file has; where it is known, pytest need not import these files
    first     the file to begin with
    stage     lanes of one stage run side by side, and after those of lower ones
    share     which share of these files, and of how many
    """

    name: str
    markers: str
    options: tuple[str, ...]
    found: str = ""
    never: str = "^$"
    first: str | None = None
    stage: int = BESIDE
    share: tuple[int, int] = (0, 1)


_FOLDERS_OF_TRAINING = r"tests/(frameworks|data_parallel|rehearsal)/"
_QUICK_LANES = min(max(CORES, 2), 4)
LANES = (
    *(
        Lane(
            "quick %d" % (number + 1),
            "quick",
            ("-p", "no:xdist", "-p", "no:schemathesis"),
            found="^tests/unit/",
            stage=QUICK,
            share=(number, _QUICK_LANES),
        )
        for number in range(_QUICK_LANES)
    ),
    Lane(
        "training",
        "training and not slurm and not timing",
        ("-n", str(max(CORES // 2, 1))),
        found=_FOLDERS_OF_TRAINING + r"|mark\.training",
    ),
    Lane(
        "others",
        "not quick and not training and not slurm and not timing",
        ("-n", str(CORES + 2), "--dist", "worksteal"),
        found=r"^tests/(?!unit/)|mark\.(heavy|slow|exhaustive)|\bEACH_VERSION\b",  # whose parameters are marked
        never=_FOLDERS_OF_TRAINING,
    ),
    Lane(
        "slurm",
        "slurm and not timing",
        ("-n", str(min(max(CORES, 2), 4)), "--dist", "loadfile", "--no-loadscope-reorder"),
        found=r"\bslurm(_without_accounting)?\b",
        first=LONGEST,
    ),
    Lane("timing", "timing", ("-p", "no:xdist"), found=r"mark\.timing", stage=ALONE),
)
STAGES = {"fast": {QUICK}, "rest": {BESIDE, ALONE}}
"""The stages of a tier that has not all of them: no exhaustive test is a quick one."""

LAST_FAILED = os.path.join(".pytest_cache", "v", "cache", "lastfailed")
"""Where pytest keeps the ids of failed tests; lanes that end at the same time would overwrite each other's."""


class Selection(NamedTuple):
    """What to run.

    tier      `fast`, `standard`, `rest` (what that leaves out) or `all`
    parts     only these; none: all
    order     only these files and ids, in this order; None: all
    minutes   no test begins later than this after the first; None: no limit
    """

    tier: str = "standard"
    parts: tuple[str, ...] = ()
    order: tuple[str, ...] | None = None
    minutes: float | None = None


class Call(NamedTuple):
    """A call of pytest that runs: what it prints is in `output`, what became of its tests in `report`."""

    lane: Lane
    process: subprocess.Popen[bytes]
    output: str | None
    report: str


def run_selection(selection: Selection, arguments: Sequence[str], name: str = "") -> int:
    """Run it; the exit code of the command."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="worldsize-tests-") as folder:
        try:
            results, codes = _run_lanes(selection, arguments, folder)
        except KeyboardInterrupt:
            return INTERRUPTED
        again = second_try(results)
        if again:
            results = after_second_try(results, _passed_alone(again, folder))
    remember_failed(results)
    for row in _table(results):
        print(row)
    line = closing_line(results, time.monotonic() - began, name)
    print(line, flush=True)
    if os.environ.get(SUMMARY):
        with open(os.environ[SUMMARY], "a", encoding="utf-8") as file:
            file.write(line + "\n")
    if os.environ.get(OUTCOMES):
        with open(os.environ[OUTCOMES], "a", encoding="utf-8") as file:
            file.writelines(json.dumps({"id": each.id, "outcome": each.outcome}) + "\n" for each in results.outcomes)
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


def _run_lanes(selection: Selection, arguments: Sequence[str], folder: str) -> tuple[Results, list[int]]:
    until = None if selection.minutes is None else time.time() + 60 * selection.minutes
    live = bool(AT_THE_TERMINAL & set(arguments))
    done: list[Call] = []
    stuck: set[str] = set()
    stages = STAGES.get(selection.tier, {QUICK, BESIDE, ALONE})
    every = [lane for lane in LANES if lane.stage in stages]
    together = [[lane for lane in every if lane.stage == stage] for stage in sorted(stages)]
    rounds = [[lane] for lane in every] if live else together
    for lanes in rounds:
        calls = []
        for lane in lanes:
            files = files_of(lane, selection)
            if files:
                words = [*_words(selection, lane, folder, until), *files, *arguments]
                calls.append(_start(lane, words, folder, live or len(lanes) == 1))
        stuck |= _wait(calls, time.monotonic())
        done += calls
    codes = [0 if call.lane.name in stuck else call.process.returncode for call in done]
    return read_results(call.report for call in done), codes


def _words(selection: Selection, lane: Lane, folder: str, until: float | None) -> list[str]:
    words = ["--tier", selection.tier, "-m", lane.markers, *lane.options]
    words += [word for part in selection.parts for word in ("--part", part)]
    if until is not None:
        words += ["--until", "%.3f" % until]
    if selection.order is None:
        return words
    path = os.path.join(folder, "order.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(list(selection.order), file)
    return [*words, "--order", path]


def files_of(lane: Lane, selection: Selection) -> list[str]:
    """The files that may hold tests of the lane: importing all of them takes longer than the tests of some lanes."""
    paths = sorted(glob.glob("tests/**/test_*.py", root_dir=ROOT, recursive=True))
    if selection.order is not None:
        asked = dict.fromkeys(name.split("::")[0] for name in selection.order)
        paths = [path for path in asked if path in paths]
    if selection.parts:
        parts = _selection().PARTS
        kept = {folder for folder, part in parts.items() if part in selection.parts} | {"conformance"}
        paths = [path for path in paths if path.split("/")[1] in kept]
    found = [path for path in paths if re.search(lane.found, _text(path)) and not re.search(lane.never, path)]
    found = share_of({path: os.path.getsize(os.path.join(ROOT, path)) for path in found}, *lane.share)
    return sorted(found, key=lambda path: path != lane.first) if selection.order is None else found


def _text(path: str) -> str:
    """A file's path, its text, and that of each conftest.py beside it and above it."""
    text = path
    names = [path]
    folder = os.path.dirname(path)
    while folder not in ("", "tests"):
        names.append(os.path.join(folder, "conftest.py"))
        folder = os.path.dirname(folder)
    for name in names:
        if os.path.exists(os.path.join(ROOT, name)):
            with open(os.path.join(ROOT, name), encoding="utf-8") as file:
                text += file.read()
    return text


def _start(lane: Lane, words: Sequence[str], folder: str, live: bool) -> Call:
    report = os.path.join(folder, lane.name + ".jsonl")
    output = None if live else os.path.join(folder, lane.name + ".log")
    if live:
        return Call(lane, _pytest(words, report), output, report)
    with open(os.path.join(folder, lane.name + ".log"), "wb") as file:
        return Call(lane, _pytest(words, report, file.fileno()), output, report)


def _pytest(words: Sequence[str], report: str, output: int | None = None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--outcomes", report, *words]
    stdin = None if output is None else subprocess.DEVNULL
    return subprocess.Popen(command, cwd=ROOT, stdin=stdin, stdout=output, stderr=output)


def _wait(calls: Sequence[Call], began: float) -> set[str]:
    """Wait until all have ended; print how far they are now and then, and what each has printed when it ends.

    A call whose tests have all ended at one look, and which is still there at the next, is ended: pytest may be
    removing temporary directories of former calls, which took more than half a minute where these were large. The
    lanes of such calls are returned.
    """
    waiting = list(calls)
    complete: set[str] = set()
    stuck: set[str] = set()
    said = began
    while waiting:
        for call in list(waiting):
            try:
                call.process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
            except KeyboardInterrupt:  # each was interrupted too, and ends its clusters and processes
                for each in waiting:
                    each.process.wait()
                raise
            waiting.remove(call)
            if call.output is not None:
                print("==> %s" % call.lane.name, flush=True)
                with open(call.output, encoding="utf-8", errors="replace") as file:
                    print(file.read(), flush=True)
        if waiting and len(calls) > 1 and time.monotonic() - said > PROGRESS_SECONDS:
            said = time.monotonic()
            found = {call.lane.name: read_results([call.report]) for call in waiting}
            parts = [progress_line(name, results) for name, results in found.items()]
            print("==> %3.0f s: %s" % (said - began, "; ".join(parts)), flush=True)
            for call in waiting:
                if call.lane.name in complete:
                    _end_stuck(call)
                    stuck.add(call.lane.name)
            complete = {name for name, results in found.items() if results.complete}
    return stuck


def _end_stuck(call: Call) -> None:
    """End pytest, and its workers, with a signal at which each writes its stacks to the output.

    Its failures are printed here, since pytest prints them at its end.
    """
    print("==> %s: all tests have ended, and pytest has not: it is ended; see its stacks" % call.lane.name, flush=True)
    for each in read_results([call.report]).failed:
        print("%s\n%s" % (each.id, each.text), flush=True)
    pid = call.process.pid
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
        workers = [int(word) for word in file.read().split()]
    for each in (*workers, pid):  # the output is read once pytest itself has ended, so its workers end before
        try:
            process = os.pidfd_open(each)
        except ProcessLookupError:
            continue
        try:
            signal.pidfd_send_signal(process, signal.SIGABRT)
            select.select([process], [], [], STACK_SECONDS)
        except ProcessLookupError:
            continue
        finally:
            os.close(process)


def _passed_alone(ids: Sequence[str], folder: str) -> list[str]:
    """The tests that pass when nothing runs beside them."""
    report = os.path.join(folder, "again.jsonl")
    print("==> once more, alone: %s" % " ".join(ids), flush=True)
    _pytest(["-p", "no:xdist", *ids], report).wait()
    return [each.id for each in read_results([report]).outcomes if each.outcome == "passed"]


def last_failed() -> list[str]:
    """The ids of the tests that failed when they ran last, as far as their files are still there."""
    try:
        with open(os.path.join(ROOT, LAST_FAILED), encoding="utf-8") as file:
            return [name for name in json.load(file) if os.path.exists(os.path.join(ROOT, name.split("::")[0]))]
    except (OSError, ValueError):
        return []


def remember_failed(results: Results) -> None:
    """Keep the ids of what failed, and of what failed before and has not run now, where pytest keeps them."""
    ran = {each.id for each in results.outcomes}
    kept = [name for name in last_failed() if name not in ran]
    path = os.path.join(ROOT, LAST_FAILED)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict.fromkeys([*kept, *(each.id for each in results.failed)], True), file)


def _table(results: Results) -> list[str]:
    part_of = _selection().part_of
    return table_of_parts(results, {each.id: part_of(each.id) for each in results.outcomes if each.outcome != "error"})


def _selection() -> Any:
    """tests/selection.py, which is no package's."""
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "tests")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return import_module("selection")
