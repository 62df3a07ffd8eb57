"""`worldsize bench launch`: measures the time from the command to the first line, to the first step, and to the end,
for worldsize and every launcher that is found."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from worldsize.cli.console import parse_count
from worldsize.cli.output import report, show
from worldsize.common.named_tuple import Any
from worldsize.errors import UsageError
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.service.computes import choose_compute
from worldsize.service.providers import find_provider
from worldsize.state.node_facts import NodeFacts
from worldsize.version import VERSION
from worldsize.wings.bench.directory import former_result
from worldsize.wings.bench.fact_tables import hardware_table, software_table
from worldsize.wings.bench.launch.launchers import LAUNCHERS, FoundLauncher, Launcher, Surroundings, find_launcher
from worldsize.wings.bench.launch.presentation import charts as charts
from worldsize.wings.bench.launch.presentation import sentences as sentences
from worldsize.wings.bench.launch.presentation import tables as tables
from worldsize.wings.bench.launch.rounds import Place, Turns, start_of, take_rounds
from worldsize.wings.bench.oversubscription import find_oversubscription
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.result_file import write_result
from worldsize.wings.bench.session import Interrupted, Session
from worldsize.wings.bench.worlds import World

_ROUNDS = 5
_INTERRUPTED = 130


def add_options(group: Any) -> None:
    names = ",".join(each.name for each in LAUNCHERS)
    group.add_argument("--launchers", metavar="NAMES", help=f"only these of {names} (default: all that are found)")
    group.add_argument("--rounds", metavar="N", type=parse_count, help=f"how often each is started ({_ROUNDS})")
    group.add_argument("--torch", action="store_true", help="the first step is an all-reduce with torch")


def measure(options: argparse.Namespace, session: Session) -> BenchResult:
    """Run the launch benchmark: start each launcher in turn, for a number of rounds, in each world of `session`, and
    return the BenchResult. Keep the earlier result of a world in which all launchers were measured without a failure.
    Raise UsageError. Raise Interrupted, with the result so far."""
    compute = choose_compute(session.config, session.compute, None)
    kind = session.config.computes[compute].type
    python, path = find_python(session)
    slurm = kind == "slurm" or "SLURM_JOB_ID" in session.environ
    around = Surroundings(path, kind == LOCAL, slurm, os.path.exists("/dev/nvidiactl"))
    found = _find_launchers(options.launchers, around)
    rounds = _ROUNDS if options.rounds is None else options.rounds
    if not rounds:
        raise UsageError("no round measures nothing", "--rounds", "at least 1")
    settings = {
        "rounds": str(rounds),
        "first step": "import torch, an all-reduce" if options.torch else "the ranks meet by files",
        "launchers": ", ".join(f"{each.launcher.name} {each.version}".strip() for each in found),
        **session.shown_settings(),
    }
    title = "From the command to ranks, and back"
    empty = BenchResult("launch", title, "s", "", compute, time.time(), VERSION, settings)
    place = Place(session, found, python, path, "", options.torch, around.local)
    if session.dry_run:
        return _show_commands(empty, place)
    former = former_result(session.directory, empty)
    with _scratch(session.directory) as scratch, _heard_signals():
        return _measure(former, place._replace(scratch=scratch), rounds)


def _find_launchers(said: str | None, around: Surroundings) -> list[FoundLauncher]:
    """Return the launchers that can be measured here, of those named in `said` (comma-separated; None: all). Raise
    UsageError if the user named one that is unknown or cannot be measured here."""
    known = {each.name: each for each in LAUNCHERS}
    names = list(known) if said is None else [name.strip() for name in said.split(",")]
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{unknown!r:.60} is not a launcher", "--launchers", ", ".join(known))
    found = [find_launcher(launcher, around) for name, launcher in known.items() if name in names]
    if said is not None:
        asked = (launcher for name, launcher in known.items() if name in names)
        _refuse_useless(zip(asked, found, strict=True))
    return [each for each in found if isinstance(each, FoundLauncher)]


def _refuse_useless(answers: Any) -> None:
    launcher: Launcher
    for launcher, answer in answers:
        if isinstance(answer, str):
            raise UsageError(f"{launcher.name} cannot be measured: {answer}", "--launchers", "leave it out")


def find_python(session: Session) -> tuple[str, str]:
    """Return the Python interpreter of the ranks, and the search path for launchers, which begins with the directory of
    the interpreter of `--environment`, or else of this Python. Raise UsageError for an environment without a Python."""
    said = next((each.partition("=")[2] for each in session.settings if each.startswith("environment=")), None)
    path = session.environ.get("PATH", os.defpath)
    if said is None:
        return sys.executable, os.pathsep.join((os.path.dirname(sys.executable), path))
    place = os.path.join(session.cwd, os.path.expanduser(said), "bin")
    python = os.path.join(place, "python")
    if not os.access(python, os.X_OK):
        raise UsageError(f"there is no {python}", "--environment", "name the directory of an environment")
    return python, os.pathsep.join((place, path))


def _show_commands(empty: BenchResult, place: Place) -> BenchResult:
    for world in place.session.worlds:
        for each in place.found:
            show(shlex.join(each.launcher.command(each, start_of(world, place, False, "DIR"))))
    return empty


@contextmanager
def _scratch(directory: str) -> Generator[str, None, None]:
    """Create a temporary directory inside the benchmark's `directory` that only this user can access and that the nodes
    of a cluster can see too. Remove it at the end of the context."""
    scratch = tempfile.mkdtemp(prefix=".trials-", dir=directory)
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _heard_signals() -> Generator[None, None, None]:
    """Handle TERM and HUP like Ctrl-C inside the context, so that the processes of a measurement are terminated.
    Signals that were ignored stay ignored."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    heard = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) != signal.SIG_IGN]
    former = [(each, signal.signal(each, interrupt)) for each in heard]
    try:
        yield
    finally:
        for number, handler in former:
            signal.signal(number, handler)


def _measure(former: BenchResult, place: Place, rounds: int) -> BenchResult:
    nodes = this_machine(place)
    mpi = next((each.version for each in place.found if each.launcher.name == "mpirun"), "")
    result = former._replace(hardware=hardware_table(nodes), software=software_table(nodes, {"MPI": mpi}))
    names = [each.launcher.name for each in place.found]
    for world in place.session.worlds:
        if is_measured(former.measurements, world, names, rounds):
            report(f"{world}: measured already")
        else:
            result = _measure_world(result, world, place, rounds, nodes)
    return result


def is_measured(measurements: Sequence[Measurement], world: World, launchers: Sequence[str], rounds: int) -> bool:
    """Return whether `measurements` contain, for the given world, all `rounds` of each of the `launchers`, without a
    failure."""
    known = {str(each.details.get("launcher")): each for each in measurements if each.world == world}
    for name in launchers:
        times = known[name].details.get("end") if name in known and not known[name].failure else None
        if not isinstance(times, list) or len(times) != rounds:
            return False
    return True


def this_machine(place: Place) -> tuple[NodeFacts, ...]:
    """Return the hardware and software facts of this machine, as a tuple of one NodeFacts; empty if the ranks run on
    another compute, or if no provider of facts is installed."""
    facts = find_provider("facts")
    if not place.is_local or not facts:
        return ()
    found: NodeFacts = facts.this_machine(place.python, place.session.cwd, place.session.environ)
    return (found,)


def _measure_world(
    result: BenchResult, world: World, place: Place, rounds: int, nodes: Sequence[NodeFacts]
) -> BenchResult:
    """Measure the start time of each launcher in one world, for a number of rounds, and return `result` with these
    measurements. The result is written to the benchmark's directory after each round. Raise Interrupted."""
    turns = [Turns(each) for each in place.found]
    crowd = find_oversubscription(nodes, world.ranks, 1)
    found: list[Measurement] = []
    others = [each for each in result.measurements if each.world != world]

    def with_found() -> BenchResult:
        ordered = sorted((*others, *found), key=lambda each: (each.world.ranks, each.world.nodes))
        return result._replace(measurements=tuple(ordered))

    def keep() -> None:
        found[:] = [each.measurement(world, crowd) for each in turns]
        write_result(with_found(), place.session.directory)

    try:
        take_rounds(world, place, turns, rounds, keep)
    except KeyboardInterrupt:
        raise Interrupted(with_found(), _INTERRUPTED) from None
    for each in found:
        report(f"{world}: {each.details['launcher']}: {_said(each)}")
    return with_found()


def _said(each: Measurement) -> str:
    times = each.details["first"]
    return f"{statistics.median(times):.3f} s to the first line" if times else each.failure
