"""The preloading of a node, on the agent's side. It begins before the ranks start, and results in a process from which
they are forked. It never fails the run: ranks that cannot be forked start plainly.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.launchers.base import umask_of
from worldsize.agent.launchers.rank_process import NodeLaunch, Process, node_shares
from worldsize.agent.outcome.node_record import NodeRecorder
from worldsize.plan.plan import NO_PYTHON
from worldsize.state.records import Failure
from worldsize.wings.warm_start.agent.preloader import Preloader, PreloadError
from worldsize.wings.warm_start.agent.rank_differences import bytes_of_place, doubt_about, place_of, variables_for
from worldsize.wings.warm_start.judgement.gpus import has_gpus
from worldsize.wings.warm_start.judgement.python_command import PythonCommand, python_command

_LONGEST = 900.0
"""Seconds after which the import is given up. Ranks that start plainly would also wait for a file system that has
stopped."""

_ELF = b"\x7fELF"


class Preparation:
    """The preloading of one node, which begins at once and never fails, and afterwards the source from which the node's
    ranks are forked. `doubt` is the reason why ranks must start plainly; "" while there is none."""

    def __init__(self, launch: NodeLaunch, peers: Peers) -> None:
        self.failure: Failure | None = None
        self.ready = False
        self.doubt = ""
        self._launch = launch
        self._preloader: Preloader | None = None
        self._given: Mapping[str, str] = {}
        self._command: PythonCommand | None = None
        self._until = time.monotonic() + _LONGEST
        try:
            self._start()
        except (OSError, PreloadError) as error:
            self._give_up(str(error))

    def _start(self) -> None:
        plan = self._launch.plan
        if plan.start.automatic and has_gpus():
            raise PreloadError("this node has GPUs, and the job names no modules to preload")
        self._command = command = python_command(plan.argv)
        if command is None:
            raise PreloadError(NO_PYTHON)
        ranks = list(self._launch._replace(shares=node_shares(plan, self._launch.node)).ranks())
        words = _words(command, ranks)
        self._given = variables_for(command, ranks)
        _require_program(ranks[0], words[0], self._given)
        order = {"words": words[0], "script": command.script, "modules": list(plan.start.modules)}
        os.chdir(self._launch.paths.code)
        logs = [each.log for each in ranks]
        room = max(bytes_of_place(place_of(*each, self._given)) for each in zip(ranks, words))
        self._preloader = Preloader(ranks[0], self._given, room, logs, order, umask_of(plan))

    def _give_up(self, doubt: str) -> None:
        self.doubt, self.ready = doubt, True
        self.close()

    def fileno(self) -> int:
        assert self._preloader is not None
        return self._preloader.fileno()

    def acknowledge(self) -> None:
        """Read the answer of the preloading process, after which the preparation is `ready`: the modules are imported,
        or the reason why they are not becomes the `doubt`."""
        if self._preloader is None or self.ready:
            return
        try:
            self._preloader.wait_for_modules()
        except PreloadError as error:
            self._give_up(str(error))
        self.ready = True

    def deadline(self) -> float | None:
        return None if self.ready else self._until

    def tick(self, now: float) -> None:
        """Give up the preloading of modules if it takes longer than `_LONGEST` seconds; the ranks then start plainly.
        `now` is by time.monotonic()."""
        if not self.ready and now >= self._until:
            self._give_up(f"the modules were not imported within {_LONGEST:.0f} s")

    def finish(self, recorder: NodeRecorder) -> NodeLaunch:
        """Return the node's launch with this object as the source from which its ranks' processes are forked."""
        return self._launch._replace(forks=self)

    def stop(self) -> Sequence[int]:
        """End the preloading process, unless the preloading is `ready`, so that ranks will be forked from it. Return an
        empty tuple of process ids."""
        if not self.ready:
            self._give_up("the run ended before")
        return ()

    def close(self) -> None:
        """Kill the preloading process, unless it was killed before, or its forks continue as ranks."""
        preloader, self._preloader = self._preloader, None
        if preloader is not None:
            preloader.close()

    # the ranks

    def start(self, ranks: Sequence[Process]) -> list[int]:
        """Fork the node's `ranks` from the preloading process; they wait until `go`. Return their process ids; an empty
        list if there is a `doubt`, so that the ranks must start plainly."""
        if self._preloader is None or self._command is None:
            return []
        try:
            words = _words(self._command, ranks)
            return self._preloader.fork([place_of(*each, self._given) for each in zip(ranks, words)])
        except PreloadError as error:
            self._give_up(str(error))
            return []

    def go(self, count: int) -> None:
        """Permit `count` forked ranks, which wait, to continue with the script."""
        if self._preloader is not None:
            self._preloader.go(count)
            self._preloader = None


def _words(command: PythonCommand, ranks: Sequence[Process]) -> list[list[str]]:
    """Return the words of each rank's Python command, with the rank's variables inserted. Raise PreloadError if one
    process cannot become all of the ranks, because of their differences."""
    words = [command.expand(rank.environment) for rank in ranks]
    doubt = doubt_about(ranks, words)
    if doubt:
        raise PreloadError(doubt)
    return [each for each in words if each is not None]


def _require_program(first: Process, words: Sequence[str], variables: Mapping[str, str]) -> None:
    """Check that the Python of the ranks' command (`words[0]`) is a program, and not a script that starts Python in
    some way: only a program certainly loads what the agent has put on its path. Raise PreloadError if it is a script,
    or if the run has no hook for its ranks."""
    from worldsize.agent.posix.processes import find_program

    program = find_program(words[0], variables)
    with open(program, "rb") as file:
        if file.read(len(_ELF)) != _ELF:
            raise PreloadError(f"{program} is a script")
    if not os.path.isfile(os.path.join(variables["PYTHONPATH"].split(os.pathsep)[0], "sitecustomize.py")):
        raise PreloadError("the run has no hook for its ranks")
