"""`worldsize bench launch`: from the command to the first line, to the first step, and until all is over: worldsize and
every launcher found."""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable

from worldsize.cli.console import parse_count
from worldsize.cli.output import report, show_transient_line
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import UsageError
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.service.computes import choose_compute
from worldsize.version import VERSION
from worldsize.wings.bench.directory import former_result
from worldsize.wings.bench.launch.launchers import LAUNCHERS, FoundLauncher, Start, find_launchers
from worldsize.wings.bench.launch.presentation import charts as charts
from worldsize.wings.bench.launch.presentation import sentences as sentences
from worldsize.wings.bench.launch.presentation import tables as tables
from worldsize.wings.bench.launch.trial import Trial, run_trial
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.result_file import write_result
from worldsize.wings.bench.session import Interrupted, Session
from worldsize.wings.bench.worlds import World

_PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks", "probe.py")
_ROUNDS, _LIMIT = 5, 60.0
_INTERRUPTED = 130
_PLACES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def add_options(group: Any) -> None:
    names = ",".join(each.name for each in LAUNCHERS)
    group.add_argument("--launchers", metavar="NAMES", help=f"only these of {names} (default: all that are found)")
    group.add_argument("--rounds", metavar="N", type=parse_count, help=f"how often each is started ({_ROUNDS})")
    group.add_argument("--torch", action="store_true", help="the first step is an all-reduce of torch")


def measure(options: argparse.Namespace, session: Session) -> BenchResult:
    """Start each launcher in turn, some rounds, in each world. UsageError; Interrupted, with what was measured."""
    name = choose_compute(session.config, session.compute, None)
    kind = session.config.computes[name].type
    python, path = _python_of(session)
    found = find_launchers(_names(options.launchers), path, kind == "slurm" or "SLURM_JOB_ID" in session.environ)
    rounds = options.rounds or _ROUNDS
    empty = BenchResult(
        "launch", "From the command to ranks, and back", "s", "", name, time.time(), VERSION,
        {
            "rounds": str(rounds),
            "first step": "import torch, an all-reduce" if options.torch else "the ranks meet by files",
            "launchers": ", ".join(f"{each.launcher.name} {each.version}".strip() for each in found),
        },
    )  # fmt: skip
    if session.dry_run:
        return _show_commands(empty, found, session, python)
    former_result(session.directory, empty)  # which refuses other settings; times of another day are not mixed in
    result = empty._replace(hardware=_hardware())
    scratch = tempfile.mkdtemp(prefix=".trials-", dir=session.directory)
    place = Place(session, found, python, path, scratch, options.torch, kind == LOCAL)
    try:
        for world in session.worlds:
            result = _measure_world(result, world, place, rounds)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return result


class Place(NamedTuple):
    """Where launchers are started.

    python, path  what ranks are executed by, and where launchers are looked for
    scratch    a directory for all trials, removed at the end
    is_local   worldsize starts its ranks on this machine
    """

    session: Session
    found: list[FoundLauncher]
    python: str
    path: str
    scratch: str
    torch: bool
    is_local: bool


def _names(said: str | None) -> tuple[str, ...]:
    """UsageError for one that is not known."""
    known = tuple(each.name for each in LAUNCHERS)
    if said is None:
        return known
    names = tuple(name.strip() for name in said.split(","))
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{unknown!r:.60} is no launcher", "--launchers", ", ".join(known))
    return names


def _python_of(session: Session) -> tuple[str, str]:
    """The Python of ranks, and the directories where launchers are looked for: those of `--environment` first, else of
    this Python. UsageError for an environment without a Python."""
    said = next((each.partition("=")[2] for each in session.settings if each.startswith("environment=")), None)
    path = session.environ.get("PATH", os.defpath)
    if said is None:
        return sys.executable, os.pathsep.join((os.path.dirname(sys.executable), path))
    place = os.path.join(session.cwd, os.path.expanduser(said), "bin")
    python = os.path.join(place, "python")
    if not os.access(python, os.X_OK):
        raise UsageError(f"there is no {python}", "--environment", "name the directory of an environment")
    return python, os.pathsep.join((place, path))


def _hardware() -> tuple[tuple[str, str], ...]:
    uname = os.uname()
    cores = len(os.sched_getaffinity(0))
    return (("cores", str(cores)), ("kernel", f"{uname.sysname} {uname.release} {uname.machine}"))


def _show_commands(empty: BenchResult, found: list[FoundLauncher], session: Session, python: str) -> BenchResult:
    import shlex

    from worldsize.cli.output import show

    for world in session.worlds:
        for each in found:
            start = Start((python, _PROBE, "first", str(world.ranks), "DIR"), world, session.compute)
            show(shlex.join(each.launcher.command(each.path, start)))
    return empty


def _measure_world(result: BenchResult, world: World, place: Place, rounds: int) -> BenchResult:
    """One round more than counts, the first: files are read for the first time in it. Every other round runs backwards,
    so that nobody always runs after the same neighbour."""
    trials: dict[str, list[tuple[Trial, Trial]]] = {each.launcher.name: [] for each in place.found}
    before = result.measurements
    try:
        for number in range(-1, rounds):
            for each in place.found if number % 2 == 0 else reversed(place.found):
                _tell(f"{world}: round {number + 1} of {rounds}: {each.launcher.name}")
                pair = (_run(each, world, place, fails=False), _run(each, world, place, fails=True))
                if number >= 0:
                    trials[each.launcher.name].append(pair)
            result = result._replace(measurements=(*before, *_measurements(world, place.found, trials)))
            write_result(result, place.session.directory)
    except KeyboardInterrupt:
        raise Interrupted(result, _INTERRUPTED) from None
    finally:
        _tell("")
    for measured in result.measurements[len(before) :]:
        times = measured.details["first"]
        said = f"{statistics.median(times):.3f} s to the first line" if times else measured.failure
        report(f"{world}: {measured.details['launcher']}: {said}")
    return result


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        show_transient_line(text)


def _run(each: FoundLauncher, world: World, place: Place, fails: bool) -> Trial:
    """One trial, whose ranks meet in a directory of its own, which nodes of a cluster see, too."""
    directory = tempfile.mkdtemp(dir=place.scratch)
    try:
        program = (place.python, _PROBE, "failing" if fails else "first", str(world.ranks), directory)
        start = Start((*program, "torch") if place.torch else program, world, place.session.compute)
        words = each.launcher.command(each.path, start)
        limit = place.session.timeout or _LIMIT
        return run_trial(words, _environ(place, each), place.scratch, world.ranks, fails, limit)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _environ(place: Place, each: FoundLauncher) -> dict[str, str]:
    """The person's, without what an outer launcher has said of ranks; runs on this machine are not kept."""
    environ = {name: value for name, value in place.session.environ.items() if name not in _PLACES}
    threads = environ.get("OMP_NUM_THREADS", "1")
    environ.update({**each.launcher.variables, "PATH": place.path, "OMP_NUM_THREADS": threads})
    if each.launcher.name == "worldsize" and place.is_local:
        environ["WORLDSIZE_HOME"] = os.path.join(place.scratch, "home")
    return environ


def _measurements(
    world: World, found: Iterable[FoundLauncher], trials: dict[str, list[tuple[Trial, Trial]]]
) -> list[Measurement]:
    return [
        _measurement(world, each, [pair[0] for pair in pairs], [pair[1] for pair in pairs])
        for each in found
        if (pairs := trials[each.launcher.name])
    ]


def _measurement(world: World, each: FoundLauncher, ended: list[Trial], failed: list[Trial]) -> Measurement:
    failures = [trial.failure for trial in (*ended, *failed) if trial.failure]
    details = {
        "launcher": each.launcher.name,
        "version": each.version,
        "nodes": world.nodes if each.launcher.nodes else 1,
        "first": _known(trial.first for trial in ended),
        "step": _known(trial.step for trial in ended),
        "end": _known(trial.over for trial in ended),
        "failure_end": _known(trial.over for trial in failed),
        "left": max((trial.left for trial in (*ended, *failed)), default=0),
        "failures": len(failures),
    }
    return Measurement(world, failure=failures[0] if failures else "", details=details)


def _known(times: Iterable[float | None]) -> list[float]:
    return [round(each, 6) for each in times if each is not None]
