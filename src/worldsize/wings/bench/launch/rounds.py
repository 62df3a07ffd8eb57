"""The rounds of all launchers in one world. Every other round is in reverse order, so that no launcher always runs
after the same one."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence

from worldsize.cli.output import show_transient_line
from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.bench.launch.launchers import FoundLauncher, Start
from worldsize.wings.bench.launch.trial import Trial, run_trial
from worldsize.wings.bench.result import Measurement
from worldsize.wings.bench.session import Session
from worldsize.wings.bench.worlds import World

PROBE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks", "probe.py")
_LIMIT = 60.0
_OUTER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
_OUTER_PREFIXES = ("SLURM_", "PMI_", "PMIX_", "OMPI_")


class Place(NamedTuple):
    """The conditions under which launchers are started.

    python, path  the interpreter of the ranks, and the directories where launchers are looked for
    scratch       a directory for all trials, removed at the end
    is_local      whether worldsize starts its ranks on this machine
    """

    session: Session
    found: Sequence[FoundLauncher]
    python: str
    path: str
    scratch: str
    torch: bool
    is_local: bool

    @property
    def settings(self) -> tuple[str, ...]:
        """The keys that worldsize changes, without `environment`, because the Python of the ranks is named already."""
        return tuple(each for each in self.session.settings if not each.startswith("environment="))


class Turns:
    """The trials of one launcher. The first trial of each kind, in which files are read for the first time, does not
    count. If it fails or does not end, there are no more trials of its kind."""

    def __init__(self, found: FoundLauncher) -> None:
        self.found = found
        self._ended: list[Trial] = []
        self._failed: list[Trial] = []

    def take(self, run: Callable[[bool], Trial]) -> None:
        """Run one more trial of the launcher that ends normally, and one in which a rank fails. Skip a kind whose first
        trial failed or did not end, and both kinds if that was the normal one. `run` starts the launcher; its argument
        is whether a rank must fail."""
        if not _is_given_up(self._ended):
            self._ended.append(run(False))
        if not _is_given_up(self._ended) and not _is_given_up(self._failed):
            self._failed.append(run(True))

    def measurement(self, world: World, oversubscribed: str = "") -> Measurement:
        trials = (*self._ended, *self._failed)
        failures = [trial.failure for trial in trials if trial.failure]
        details = {
            "launcher": self.found.launcher.name,
            "version": self.found.version,
            "nodes": world.nodes if self.found.launcher.nodes else 1,
            "first": _known(trial.first for trial in self._ended[1:]),
            "step": _known(trial.step for trial in self._ended[1:]),
            "end": _known(trial.over for trial in self._ended[1:]),
            "failure_end": _known(trial.over for trial in self._failed[1:]),
            "endless": max((trial.endless for trial in self._failed), default=0.0),
            "left": max((trial.left for trial in trials), default=0),
            "failures": len(failures),
        }
        return Measurement(
            world, failure=failures[0] if failures else "", details=details, oversubscribed=oversubscribed
        )


def _is_given_up(trials: Sequence[Trial]) -> bool:
    return bool(trials and (trials[0].failure or trials[0].endless))


def _known(times: Iterable[float | None]) -> list[float]:
    return [round(each, 6) for each in times if each is not None]


def take_rounds(world: World, place: Place, turns: Sequence[Turns], rounds: int, keep: Callable[[], None]) -> None:
    """Run `rounds` rounds of the launch benchmark in one world, after one that does not count. In each round, every
    launcher of `turns` is started. `keep` is called after each round that counts."""
    try:
        for number in range(rounds + 1):
            for each in reversed(turns) if number % 2 else turns:
                _tell(f"{world}: round {number} of {rounds}: {each.found.launcher.name}")
                each.take(lambda fails, found=each.found: _run(found, world, place, fails))  # type: ignore[misc]
            if number:
                keep()
    finally:
        _tell("")


def _tell(text: str) -> None:
    if sys.stderr.isatty():
        show_transient_line(text)


def _run(found: FoundLauncher, world: World, place: Place, fails: bool) -> Trial:
    """Start the launcher `found` once and return the Trial. If `fails` is set, a rank fails on purpose. The ranks meet
    in a directory of this trial alone, which the nodes of a cluster can see too. worldsize runs in the user's current
    directory, because it looks for its configuration from there upwards."""
    launcher, session = found.launcher, place.session
    directory = tempfile.mkdtemp(dir=place.scratch)
    try:
        words = launcher.command(found, start_of(world, place, fails, directory))
        cwd = session.cwd if launcher.name == "worldsize" else directory
        limit = session.timeout or _LIMIT
        return run_trial(words, trial_environ(place, found), cwd, world.ranks, fails, limit, launcher.ended_by)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def start_of(world: World, place: Place, fails: bool, directory: str) -> Start:
    program = (place.python, PROBE, "failing" if fails else "first", str(world.ranks), directory)
    more = ("torch",) if place.torch else ()
    return Start((*program, *more), world, place.session.compute, place.settings)


def trial_environ(place: Place, found: FoundLauncher) -> dict[str, str]:
    """Return the environment in which the launcher `found` is started: the user's, without the variables that an outer
    launcher sets for ranks. For launchers that start ranks only on this machine, the variables of an outer allocation
    are removed too. The runs of worldsize on this machine go into the scratch directory, so that they are not kept."""
    outer = () if found.launcher.nodes else _OUTER_PREFIXES
    environ = {
        name: value
        for name, value in place.session.environ.items()
        if name not in _OUTER and not name.startswith(outer)
    }
    threads = environ.get("OMP_NUM_THREADS", "1")
    environ.update({**found.launcher.variables, "PATH": place.path, "OMP_NUM_THREADS": threads})
    if found.launcher.name == "worldsize" and place.is_local:
        environ["WORLDSIZE_HOME"] = os.path.join(place.scratch, "home")
    return environ
