"""The processes of one node's ranks. This module starts, signals and reaps them, and ends what they leave behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Mapping, Sequence

from worldsize.agent.launchers.base import FRAMEWORKS, find_launcher, prepare_launch, umask_of
from worldsize.agent.launchers.rank_process import EndedProcess, NodeLaunch, Process, RankForks, node_shares
from worldsize.agent.outcome.node_record import is_disk_full
from worldsize.agent.outcome.rank_failure import start_failure
from worldsize.agent.posix import processes
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.errors import PlanError
from worldsize.state.records import Failure, RankExit, Reason

_SESSION = 3
"""The index of the session id among the fields of `processes.stat_fields` (proc(5), stat, after the command)."""


class Leftover(NamedTuple):
    """A process that outlived the ranks and that the agent ended. `words` is its command line, and `rank` the rank that
    it belonged to; None if that is not known."""

    words: tuple[str, ...]
    rank: int | None


class RankProcesses:
    """The processes of one node's ranks.

    exits      an entry for each rank that has ended, or could not be started
    leftovers  the processes that the ranks left behind and the agent had to end
    spared     other children of this process that are not waited for: a killed process that waits for a dead file
               server does not end
    """

    def __init__(self) -> None:
        self.exits: list[RankExit] = []
        self.leftovers: list[Leftover] = []
        self.spared: set[int] = set()
        self._seen: dict[int, float] = {}
        self._running: dict[int, Process] = {}
        self._started: dict[int, float] = {}
        self._pids: dict[int, tuple[int, ...]] = {}
        self._signalled: set[int] = set()
        self._killed = False
        self._servers: set[int] = set()
        """Processes that serve the ranks of a framework, on a run's only node. They are not needed once the ranks have
        ended."""

    def __bool__(self) -> bool:
        return bool(self._running)

    def running(self) -> Mapping[int, Process]:
        """Return the processes of this node's ranks that have not ended, as a mapping from pid to Process."""
        return self._running

    @property
    def pids(self) -> Collection[int]:
        """The processes that have been started for ranks, including those that have ended."""
        return self._pids

    def pids_and_cpus(self) -> dict[str, dict[int, Any]]:
        """Return {"pids": {rank: pid}} of this node's running processes, and "cpus": {rank: CPUs} if any is bound. The
        process of a launcher is listed under its first rank."""
        pids = {process.ranks[0]: pid for pid, process in self._running.items()}
        cpus = {process.ranks[0]: process.cpus for process in self._running.values() if process.cpus}
        return {"pids": pids, "cpus": cpus} if cpus else {"pids": pids}

    def start_all(self, launch: NodeLaunch) -> Failure | None:
        """Start all ranks of this node in the run's code directory. Return the failure of the first rank that cannot be
        started; None if all were started. The process from which ranks are forked is closed in any case."""
        try:
            return self._start_all(launch)
        finally:
            if launch.forks is not None:
                launch.forks.close()

    def _start_all(self, launch: NodeLaunch) -> Failure | None:
        plan, node, paths = launch.plan, launch.node, launch.paths
        os.chdir(paths.code)
        try:
            launch = prepare_launch(launch._replace(shares=node_shares(plan, node)))
            if plan.framework in FRAMEWORKS and len(plan.nodes) == 1:
                self._servers = set(filter(processes.is_helper, processes.children()))
            started = find_launcher(plan.launcher).processes(launch)
        except OSError as error:
            return start_failure(plan.launcher, None, node.node_rank, error, paths.root, is_disk_full(paths.root))
        except PlanError as error:
            return Failure(Reason.EXIT_CODE, error.what, node.node_rank, None, 126, time.time())
        if launch.forks is not None and self._fork(launch.forks, started):
            return None
        umask = umask_of(plan)
        for process in started:
            try:
                self._start(process, umask)
            except OSError as error:
                full = is_disk_full(paths.root)
                return start_failure(process.argv[0], process.ranks[0], node.node_rank, error, paths.root, full)
        return None

    def _fork(self, forks: RankForks, ranks: Sequence[Process]) -> bool:
        """Fork the node's ranks from the process `forks`, which has imported their modules. Return whether they were
        forked; if not, they must be started without it."""
        pids, now = forks.start(ranks), time.time()
        for pid, process in zip(pids, ranks):
            self._add(pid, process, now)
        forks.go(len(pids))
        return bool(pids)

    def _add(self, pid: int, process: Process, started: float) -> None:
        self._running[pid] = process
        self._pids[pid] = process.ranks
        self._started[pid] = started

    def _start(self, process: Process, umask: int | None) -> None:
        """Start one process of the node's ranks, or a launcher. If it cannot be started, record its ranks as ended and
        raise OSError: FileNotFoundError for exit code 127, any other OSError for 126."""
        now = time.time()
        try:
            program = processes.find_program(process.argv[0], process.environment)
            with processes.CpuBinding(process.cpus):
                pid = processes.spawn(
                    program,
                    process.argv,
                    process.environment,
                    process.log,
                    process.held,
                    umask,
                    terminal=process.terminal,
                )
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            self.exits.extend(RankExit(rank, code, now, now) for rank in process.ranks)
            raise
        self._add(pid, process, now)

    def terminate(self) -> None:
        """Send TERM to the process group of each rank of this node, and continue the group if it was stopped."""
        for pid in self._running:
            processes.signal_group(pid, signal.SIGTERM)

    def kill(self) -> None:
        """Send KILL to the process group of each rank of this node, which contains nearly all processes and is found at
        once. Call this again while a rank lives: further calls kill all descendants of the agent, including those that
        have moved to another group or session."""
        for pid in self._running:
            processes.signal_group(pid, signal.SIGKILL)
        if self._killed:
            for pid in processes.descendants():
                processes.signal_process(pid, signal.SIGKILL)
        self._killed = True

    def reap(self, stopped: bool) -> list[EndedProcess]:
        """Return the processes of this node's ranks that have ended since the last call, and record the exits of their
        ranks. `stopped` means that the agent had already stopped them."""
        now = time.time()
        ended = []
        for pid, code in processes.reap():
            self._signalled.discard(pid)
            self.spared.discard(pid)
            process = self._running.pop(pid, None)
            if process is None:
                continue
            started = self._started.pop(pid)
            self.exits.extend(RankExit(rank, code, started, now, stopped) for rank in process.ranks)
            if code:
                processes.signal_group(pid, signal.SIGTERM)
            ended.append(EndedProcess(process, code, now))
        return ended

    def end_leftovers(self, now: float, at_once: bool, patience: float) -> bool:
        """Send TERM, or KILL if `at_once`, to the processes that the ranks of this node left behind, once no rank
        lives. Return whether nothing is left.

        `patience` is the number of seconds that each process has to end by itself, as helpers do once they see that a
        rank is gone.
        """
        found_processes = processes.descendants() if at_once else processes.children()
        left = [pid for pid in found_processes if pid not in self.spared] if self.spared else found_processes
        for pid in left:
            seen = self._seen.setdefault(pid, now)
            if pid not in self._signalled and (at_once or pid in self._servers or now - seen >= patience):
                self._signalled.add(pid)
                found = leftover_of(pid, self._pids)
                if found is not None:
                    self.leftovers.append(found)
                if not at_once:
                    processes.signal_process(pid, signal.SIGTERM)
                    processes.signal_process(pid, signal.SIGCONT)
            if at_once:
                processes.signal_process(pid, signal.SIGKILL)
        return not left


def leftover_of(pid: int, started: Mapping[int, Sequence[int]]) -> Leftover | None:
    """Return the process `pid`, which has outlived the ranks, as a Leftover with its command line and rank; None if it
    has ended, or if it is a helper of the agent. `started` contains the ranks of each process that the agent has
    started. Each of these leads a session."""
    words, fields = processes.command_line(pid), processes.stat_fields(pid)
    if not words or fields is None or processes.is_helper(pid):
        return None
    ranks = started.get(int(fields[_SESSION]), ())
    rank = ranks[0] if len(ranks) == 1 else parse_digits(processes.variable(pid, "WORLDSIZE_RANK"))
    return Leftover(words, rank)
