"""The queue of this machine's waiting runs: elements of an array that wait for their turn, and runs that wait for
another run.

One detached process starts a conductor for each run when a place becomes free. It outlives the command line, and ends
with the last of the runs. If it is killed, runs that have begun continue under their conductors, and waiting runs are
LOST.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Mapping
from functools import partial

from worldsize.agent.local.conductor import fork_conductor
from worldsize.agent.local.dependency import read_dependencies
from worldsize.agent.local.detached import fork_detached, import_from, spawn_detached
from worldsize.agent.outcome.node_record import note, write_or_note
from worldsize.agent.posix import processes
from worldsize.agent.posix.signals import STOP, STOP_NOW, SignalPipe, hold_signals, release_signals
from worldsize.agent.startup.array_element import complete_own_element
from worldsize.common.atomic_files import access_of, read_json, write_json
from worldsize.errors import UsageError
from worldsize.plan.array import element_root, read_array, write_search_outputs
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import read_masked_plan, read_unmasked_plan, write_result
from worldsize.state.array import array_result
from worldsize.state.records import Failure, Reason, RunState, Status
from worldsize.state.result import result, status_of
from worldsize.state.run_state import RUN_CANCELLED_CODE
from worldsize.trust.procfs import withdraw_variables, withheld_variables

_TICK = 1.0
_WATCHING_TICK = 0.1
_LOOK_EVERY = 5.0
"""Seconds between two checks for a cancel request from another machine, which cannot signal this process."""

_LOG = "queue.log"
_NOT_WRITTEN = "not written"


def fork_queue(agent: str, root: str, umask: int, environ: Mapping[str, str]) -> int:
    """Start the queue of waiting runs for the array, or for the single run, in the directory `root`, as a forked
    process that outlives this one and loads further modules from the file `agent`. Return its pid."""

    def run() -> int:
        import_from(agent)
        return RunQueue(root, environ).run()

    return fork_detached(run, os.path.join(root, _LOG), umask, root)


def spawn_queue(agent: str, root: str, environ: Mapping[str, str]) -> int:
    """Start the queue of waiting runs for the array, or for the single run, in the directory `root`, as a new program
    from the file `agent`, which outlives this process. Return its pid."""
    return spawn_detached([agent, root, "--queue"], os.path.join(root, _LOG), environ)


class RunQueue:
    """The queue of waiting runs on this machine: the elements of the array in `root`, or the one run in `root` that
    waits for another run."""

    def __init__(self, root: str, environ: Mapping[str, str]) -> None:
        self.paths = RunPaths(root)
        self._environ = environ
        self.array = read_array(root)
        roots = [element_root(root, k) for k in range(self.array.elements)] if self.array else [root]
        self._at_once = self.array.at_once or len(roots) if self.array else 1
        self._waiting = [RunPaths(each) for each in roots]
        self._access = access_of(root)
        self._running: dict[int, RunPaths] = {}
        self._signalled: set[int] = set()
        self._look_at = 0.0
        self._dependencies = read_dependencies(root)
        self._signals = SignalPipe()

    def run(self) -> int:
        """Start each run of the queue when its dependencies are met and a place is free, and wait until every run has
        ended. At the end, write the result of an array. Return 0."""
        first = read_masked_plan(self._waiting[0])
        os.umask(first.umask)
        withdraw_variables(withheld_variables(first.secrets, self._environ))
        selector = selectors.DefaultSelector()
        selector.register(self._signals, selectors.EVENT_READ)
        while True:
            self._reap()
            if self._handle_signals() or time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + _LOOK_EVERY
                self._end_cancelled()
            if self._may_start():
                self._start_due()
            if not self._waiting and not self._running:
                break
            selector.select(_WATCHING_TICK if self._dependencies else _TICK)
        self._conclude_array()
        return 0

    def _reap(self) -> None:
        for pid, _ in processes.reap():
            self._running.pop(pid, None)

    def _handle_signals(self) -> bool:
        """Handle the signals that the queue's process has received since the last call. Return whether there were any.
        TERM cancels all runs of the queue, QUIT ends all at once. CHLD, also from another process, means that the runs
        must be checked."""
        heard = self._signals.take()
        if heard & STOP or STOP_NOW in heard:
            self._conclude_waiting(_cancelled_status())
            for pid in self._running:
                processes.signal_process(pid, STOP_NOW if STOP_NOW in heard else signal.SIGTERM)
        return bool(heard)

    def _end_cancelled(self) -> None:
        self._waiting = [paths for paths in self._waiting if self._is_unchanged(paths)]
        everything = os.path.exists(self.paths.cancel)
        cancelled = [paths for paths in self._waiting if everything or os.path.exists(paths.cancel)]
        for paths in cancelled:
            self._conclude(paths, _cancelled_status())
        if cancelled:
            gone = {paths.root for paths in cancelled}
            self._waiting = [paths for paths in self._waiting if paths.root not in gone]
        for pid, paths in self._running.items():  # the run may have been cancelled while it still waited
            if pid not in self._signalled and (everything or os.path.exists(paths.cancel)):
                self._signalled.add(pid)
                processes.signal_process(pid, signal.SIGTERM)

    def _may_start(self) -> bool:
        """Return whether all other runs that the queue's runs wait for have ended as required. If a dependency can no
        longer be met, conclude all waiting runs as failed: no run of the queue will start."""
        self._dependencies = [each for each in self._dependencies if not each.is_met()]
        refused = next((each.refused for each in self._dependencies if each.refused), None)
        if refused:
            self._conclude_waiting(_failed_status(Reason.DEPENDENCY, f"it waited for {refused}"))
        return not self._dependencies

    def _start_due(self) -> None:
        while self._waiting and len(self._running) < self._at_once:
            paths = self._waiting.pop(0)
            if not self._is_unchanged(paths):
                note(f"{paths.root} no longer exists")
            elif os.path.exists(self.paths.cancel) or os.path.exists(paths.cancel):
                self._conclude(paths, _cancelled_status())
            else:
                self._start_run(paths)

    def _is_unchanged(self, paths: RunPaths) -> bool:
        """Return whether the directories of the run and of its array still have the same owner and permissions as at
        the start. A directory that another user has created under one of these names is neither started nor written to.
        """
        return all(access_of(root) == self._access for root in (self.paths.root, paths.root))

    def _conclude_waiting(self, status: Status) -> None:
        for paths in self._waiting:
            self._conclude(paths, status)
        self._waiting = []

    def _conclude(self, paths: RunPaths, status: Status) -> None:
        """Write the result file of a run of the queue that was never started, with this `status`. Do nothing if the
        run's directory was replaced; only log an error if its plan cannot be read."""
        if not self._is_unchanged(paths):
            return
        try:
            plan = read_masked_plan(paths)
        except (OSError, ValueError) as error:
            note(f"{paths.plan}: {error}")
            return
        write_or_note(partial(write_result, paths, result(plan, status)), _NOT_WRITTEN)

    def _start_run(self, paths: RunPaths) -> None:
        try:
            plan = read_unmasked_plan(paths)
            complete_own_element(plan, paths)
            hold_signals()
            pid = fork_conductor(plan, paths, self._environ)
        except (OSError, ValueError, UsageError) as error:
            self._conclude(paths, _failed_status(Reason.STORAGE, f"it could not be started: {error}"))
            return
        finally:
            release_signals()
        self._running[pid] = paths
        handle = processes.local_handle(pid, plan.run_id, paths.root)
        write_or_note(partial(write_json, paths.handle, handle), _NOT_WRITTEN)

    def _conclude_array(self) -> None:
        if self.array is None or not self._is_unchanged(self.paths):
            return
        roots = (element_root(self.paths.root, k) for k in range(self.array.elements))
        write_or_note(partial(write_search_outputs, self.paths.root, self.array), _NOT_WRITTEN)
        results = [read_json(RunPaths(root).result) for root in roots]
        if all(results):  # a run without a result ended without its conductor: its status is found when it is queried
            statuses = [status_of(each) for each in results]
            write_or_note(partial(write_result, self.paths, array_result(self.array, statuses)), _NOT_WRITTEN)


def _cancelled_status() -> Status:
    what = "cancelled before it was started"
    return Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, RUN_CANCELLED_CODE, what, ended=time.time())


def _failed_status(reason: str, what: str) -> Status:
    now = time.time()
    return Status(RunState.FAILED, reason, 1, what, Failure(reason, what, time=now), ended=now)
