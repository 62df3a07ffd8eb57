"""The keeper: the parent process of an agent that a scheduler has started. It ensures that no process of the node's
ranks outlives the agent, however the agent ends.

The ranks that a killed agent leaves behind lead sessions of their own, so a scheduler without control groups does not
find them. The process that the scheduler has started is therefore the keeper. It forks the agent, ends the processes
that a killed agent leaves behind, and writes the record that the agent could not write. A lifeline notifies the agent
when its keeper is gone; the agent then ends by itself.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from worldsize.agent.outcome.notifications import Notifications, begin_notifications
from worldsize.agent.posix import processes
from worldsize.agent.posix.signals import NOTICES, STOP, STOP_NOW, is_in_step_cgroup
from worldsize.common.atomic_files import read_if_possible
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exit

_LOOK_EVERY = 5.0
"""Seconds between two checks of this process's parent, for kernels that do not report the end of the starter."""

_MARK_SUFFIX = ".unheard"


def run_under_keeper(
    plan: Plan, paths: RunPaths, node_rank: int, launcher: int, starter: int, run: Callable[[int, Notifications], int]
) -> int:
    """Run a node's agent in a forked child of this process, by calling `run` with the child's lifeline and the head's
    notifications. This process, the keeper, waits for the child and returns its exit code.

    `launcher` is the pid of the process that has started the agents of all nodes and waits for them; 0 if there is
    none. `starter` is the pid of the process that has started this agent; 0 means the parent. If a starter ends, the
    run ends with NODE_FAILURE. The launcher on this machine is then killed as well, because it would wait forever.
    """
    starter, started = starter or os.getppid(), time.time()
    processes.become_subreaper()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if ignored, as by some starters, no child's end is reported
    passed_on = STOP | {STOP_NOW} | (set(NOTICES) if plan.batch is not None or is_in_step_cgroup() else set())
    before = signal.pthread_sigmask(signal.SIG_BLOCK, passed_on | {signal.SIGCHLD})
    if launcher:
        processes.end_with_parent(signal.SIGCHLD)  # SIGCHLD does not end this process, but wakes it
    notifications = Notifications()
    if node_rank == 0:
        notifications = begin_notifications(plan, paths, os.environ, restartable=True)
    lifeline, held = os.pipe()
    agent = os.fork()
    if agent == 0:
        os.close(held)
        processes.end_with_parent(signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return run(lifeline, notifications)
    os.close(lifeline)
    keeper = _Keeper(agent, held, starter if launcher else 0, paths.exit_record(node_rank) + _MARK_SUFFIX)
    code = keeper.wait(passed_on)
    if keeper.killed:
        from worldsize.agent.local.run_result import agent_lost_verdict, kill_descendants, write_stand_in_record

        kill_descendants(notifications.pids)
        if read_exit(paths, node_rank) is None:
            why = agent_lost_verdict(node_rank, code, keeper.asked_to_stop, host=processes.host_name())
            write_stand_in_record(plan, paths, node_rank, why, started)
    notifications.tell_end()
    if launcher and node_rank == 0:
        _end_launcher(paths, launcher)
    return code


class _Keeper:
    """The parent that waits for its agent, passes signals on to it, and cuts its lifeline when the starter is gone.

    mark           the file that the keeper creates for the head's keeper when the starter is gone, however the run ends
    asked_to_stop  whether the keeper has received a signal to end, and has passed it on to its agent
    killed         whether a signal has ended the agent
    """

    def __init__(self, agent: int, held: int, starter: int, mark: str) -> None:
        self._agent = agent
        self._held = held
        self._starter = starter
        self._mark = mark
        self.asked_to_stop = False
        self.killed = False

    def wait(self, passed_on: frozenset[signal.Signals]) -> int:
        """Wait until the agent's process has ended, and pass signals of `passed_on` on to it. If the starter is gone,
        create the mark file and close the agent's lifeline. Return the agent's exit code, 128+N for signal N."""
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
        except OSError:  # no run directory, or a full disk: the agent also reports it, unless it has ended
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
    """Send KILL to the process `launcher`, which waits for the agents of all nodes, if the starter of any node's agent
    was lost, because a lost starter reports nothing to the launcher. A process counts as the launcher only if its
    command line contains the run's id."""
    from worldsize.agent.outcome.verdict import STARTER_LOST

    record = read_exit(paths, 0)
    unheard = record is not None and record.stop == STARTER_LOST
    try:
        unheard = unheard or any(name.endswith(_MARK_SUFFIX) for name in os.listdir(paths.exit_dir))
    except OSError:  # without the directory there are no marks
        pass
    if unheard and paths.run_id.encode() in read_if_possible(f"/proc/{launcher}/cmdline"):
        processes.signal_process(launcher, signal.SIGKILL)
