"""The parent of an agent that a scheduler has started: nothing of the node's ranks outlives the agent, however it ends.

A killed agent leaves its ranks, which lead sessions of their own: a scheduler without control groups does not find
them. So the agent is a fork of the process that was started, which ends what the agent leaves and writes the record
that it could not write. An agent whose keeper is gone hears so through a lifeline, and ends by itself.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable

from worldsize.agent.posix import processes
from worldsize.agent.posix.signals import NOTICES, STOP, STOP_NOW, is_in_step_cgroup
from worldsize.common.atomic_files import read_if_possible
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exit

_LOOK_EVERY = 5.0
"""Seconds between two looks at who has started this process, where the kernel does not tell of its end."""

_MARK_SUFFIX = ".unheard"


def run_under_keeper(
    plan: Plan, paths: RunPaths, node_rank: int, launcher: int, starter: int, run: Callable[[int], int]
) -> int:
    """The exit code of `run`, which is called in a child of this process with its lifeline.

    `launcher`: the process that has started the agents of all nodes and will wait for them, as long as whoever has
    started each of them lives; 0 where nobody does. `starter`: who that is of this one; 0: its parent. Where one of
    these is gone, the run ends with NODE_FAILURE, and the launcher of this machine is ended too, since it would wait
    for ever.
    """
    starter, started = starter or os.getppid(), time.time()
    processes.become_subreaper()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who ignores it, as some that start agents do, is told of no end
    passed_on = STOP | {STOP_NOW} | (set(NOTICES) if plan.batch is not None or is_in_step_cgroup() else set())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, passed_on | {signal.SIGCHLD})
    if launcher:
        processes.end_with_parent(signal.SIGCHLD)  # which ends nothing, but wakes us
    lifeline, held = os.pipe()
    agent = os.fork()
    if agent == 0:
        os.close(held)
        processes.end_with_parent(signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return run(lifeline)
    os.close(lifeline)
    keeper = _Keeper(agent, held, starter if launcher else 0, paths.exit_record(node_rank) + _MARK_SUFFIX)
    code = keeper.wait(passed_on)
    if keeper.killed:
        from worldsize.agent.local.run_result import agent_lost_verdict, kill_descendants, write_stand_in_record

        kill_descendants()
        if read_exit(paths, node_rank) is None:
            why = agent_lost_verdict(node_rank, code, keeper.asked_to_stop, host=socket.gethostname())
            write_stand_in_record(plan, paths, node_rank, why, started)
    if launcher and node_rank == 0:
        _end_launcher(paths, launcher)
    return code


class _Keeper:
    """The keeper waits for its agent, passes signals on to it, and cuts its lifeline when the starter is gone.

    mark           the file that it then leaves, for the head's keeper, however the run ends
    asked_to_stop  it was told to end, and has told its agent
    killed         a signal has ended the agent
    """

    def __init__(self, agent: int, held: int, starter: int, mark: str) -> None:
        self._agent = agent
        self._held = held
        self._starter = starter
        self._mark = mark
        self.asked_to_stop = False
        self.killed = False

    def wait(self, passed_on: frozenset[signal.Signals]) -> int:
        """The agent's exit code, 128+N for signal N, once it has ended."""
        while True:
            if self._starter and os.getppid() != self._starter:
                self._starter = 0
                self._leave_mark()
                os.close(self._held)
            heard = signal.sigtimedwait(passed_on | {signal.SIGCHLD}, _LOOK_EVERY)
            if heard is not None and heard.si_signo != signal.SIGCHLD:
                self.asked_to_stop = self.asked_to_stop or heard.si_signo in STOP or heard.si_signo == STOP_NOW
                processes.signal_process(self._agent, heard.si_signo)
            code = self._reap()
            if code is not None:
                return code

    def _leave_mark(self) -> None:
        try:
            os.close(os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
        except OSError:  # its run directory is gone, or its disk full: the agent tells too, unless it has ended
            pass

    def _reap(self) -> int | None:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return None
            if pid == self._agent:
                self.killed = os.WIFSIGNALED(status)
                return processes.exit_code(status)


def _end_launcher(paths: RunPaths, launcher: int) -> None:
    """KILL to the launcher where a starter was lost on any node: a lost starter tells its launcher nothing. The run's
    id stands in the launcher's command line."""
    from worldsize.agent.outcome.verdict import STARTER_LOST

    record = read_exit(paths, 0)
    unheard = record is not None and record.stop == STARTER_LOST
    try:
        unheard = unheard or any(name.endswith(_MARK_SUFFIX) for name in os.listdir(paths.exit_dir))
    except OSError:
        pass
    if unheard and paths.run_id.encode() in read_if_possible(f"/proc/{launcher}/cmdline"):
        processes.signal_process(launcher, signal.SIGKILL)
