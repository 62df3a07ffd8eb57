"""The conductor: the one detached process of a local run. It is the parent of the run's agents and of the processes
that they leave behind.

It outlives the CLI that forked it. It forks its agents from its own warm interpreter, so that 256 virtual nodes start
in a fraction of the time of 256 programs. It writes the result when the agents have ended.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial

from worldsize.agent.control.rendezvous import HeadResources, open_head
from worldsize.agent.launchers.base import choose_launcher
from worldsize.agent.local.detached import fork_detached, import_from, run_as_program, spawn_detached
from worldsize.agent.local.run_result import (
    ResultWriter,
    agent_lost_verdict,
    end_orphans,
    kill_descendants,
    no_head_verdict,
)
from worldsize.agent.outcome.node_record import note, write_or_note
from worldsize.agent.outcome.notifications import Notifications, begin_notifications
from worldsize.agent.outcome.verdict import AGENT_LOST, CANCEL, FAILURE, Verdict, failure_verdict
from worldsize.agent.posix import processes
from worldsize.agent.posix.signals import (
    STOP,
    STOP_NOW,
    SignalPipe,
    hold_signals,
    release_signals,
)
from worldsize.agent.supervision.deadlines import StoppedAgents
from worldsize.agent.supervision.supervisor import Supervisor
from worldsize.common.atomic_files import access_of, write_json
from worldsize.common.termination import Termination
from worldsize.errors import RunFailed, WorldsizeError
from worldsize.plan.launchers import load_launchers
from worldsize.plan.plan import Plan
from worldsize.plan.rank_variables import LOOPBACK
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exit
from worldsize.state.records import Reason
from worldsize.trust.procfs import withdraw_variables, withheld_variables, without_variables

_ISOLATION = "wings.rehearsal.agent.isolation"
"""The module for a plan with a `rehearsal`. Its `isolate(plan, paths, environ)` returns the environment of the agents,
and whether each agent must call `mount_disks(plan, paths, environ)` before it starts. The module skips what the system
refuses."""

_OVERTIME = 10.0
_TICK = 1.0
_BUSY_TICK = 0.1


def fork_conductor(plan: Plan, paths: RunPaths, environ: Mapping[str, str]) -> int:
    """Start a run on this machine: fork its conductor, the detached process that starts the agents of all nodes. Return
    the conductor's pid."""
    return fork_detached(lambda: Conductor(plan, paths, environ).run(), conductor_log(paths), plan.umask, paths.root)


def spawn_conductor(paths: RunPaths, environ: Mapping[str, str], terminal: bool = False) -> int:
    """Start a run on this machine: start its conductor as a new program, and return its pid. For a caller with several
    threads, because a fork would copy their locks in the locked state. With `terminal` the run's only rank gets this
    process's streams."""
    return spawn_detached([paths.agent, paths.root, "--conduct"], conductor_log(paths), environ, terminal)


def conductor_log(paths: RunPaths) -> str:
    return os.path.join(paths.logs_dir, "conductor.log")


class Conductor:
    def __init__(self, plan: Plan, paths: RunPaths, environ: Mapping[str, str]) -> None:
        self.plan = plan
        self.paths = paths
        self._closed = withheld_variables(plan.secrets, environ)
        self.environ = without_variables(environ, self._closed)  # os.environ decodes a value each time that it is read
        self._access = access_of(paths.root)
        self._result_writer = ResultWriter(plan, paths)
        self._agents: dict[int, int] = {}
        self._lost: dict[int, Verdict] = {}
        self._cancelled = False
        self._stopped_agents = StoppedAgents(plan.silence)
        self._silent: set[int] = set()
        self._end = Termination()
        self._notifications = Notifications()
        self._mount_disks: Callable[[Plan, RunPaths, Mapping[str, str]], None] | None = None
        self._signals = SignalPipe()
        # The agents watch the reading end, which is closed when the one process that holds the other end is gone.
        self._lifeline, self._held = os.pipe()

    def run(self) -> int:
        """Execute the run's setup, start the agents of all nodes, wait until they have ended, and write the run's
        result. Return the run's exit code."""
        code = self._run()
        self._notifications.tell_end()
        return code

    def _run(self) -> int:
        processes.become_subreaper()
        withdraw_variables([*self._closed, *(name for name in os.environ if name not in self.environ)])
        if os.path.exists(self.paths.cancel) or os.path.exists(self.paths.result):
            return self._result_writer.write(dict.fromkeys(self._nodes(), Verdict(CANCEL, None)))
        self._notifications = begin_notifications(self.plan, self.paths, self.environ, restartable=False)
        if self.plan.setup:
            import_from(self.paths.agent)
            ended = self._set_up()
            if ended is not None:
                return self._result_writer.write(dict.fromkeys(self._nodes(), ended))
            if access_of(self.paths.root) != self._access:
                note(f"{self.paths.root} no longer exists")
                return 1
        try:
            if self.plan.rehearsal:
                self._isolate()
            load_launchers(self.plan, self.paths)
            launcher = choose_launcher(self.plan, self.environ)
            head = open_head(self.plan, self.paths, LOOPBACK, launcher)
        except (OSError, WorldsizeError) as error:
            return self._result_writer.write(dict.fromkeys(self._nodes(), no_head_verdict(error)))
        hold_signals()
        try:
            self._fork_agents(head)
        except OSError as error:  # the limit of this user's processes is reached
            what = f"no agent could be started: {error.strerror}"
            why = failure_verdict(AGENT_LOST, Reason.NODE_FAILURE, what)
            self._lost = dict.fromkeys(self._nodes() - set(self._agents.values()), why)
            self._signal_agents(signal.SIGTERM)
        release_signals()
        os.close(self._lifeline)
        if head.listener:
            head.listener.close()
        self._write_handle()
        self._wait_for_agents()
        kill_descendants(self._notifications.pids)
        return self._result_writer.write(self._lost)

    def _set_up(self) -> Verdict | None:
        """Execute the job's setup. Return the verdict that ends the run if the setup failed or was cancelled, else
        None."""
        from worldsize.agent.startup.setup_script import environment_after_setup

        self._write_handle()
        try:
            environ = environment_after_setup(self.plan, self.paths, self.environ, self._is_stop_requested)
        except RunFailed as error:
            return failure_verdict(FAILURE, Reason.ENVIRONMENT, str(error), code=error.exit_code)
        except OSError as error:
            return no_head_verdict(error)
        if environ is None:
            return Verdict(CANCEL, None)
        self.environ = environ
        return None

    def _isolate(self) -> None:
        """Separate the virtual nodes of a rehearsal from each other, as far as the system permits it: take the agents'
        environment and the function that mounts each node's own disks from the wing for rehearsals. Raise ConfigError
        if this installation does not include rehearsals."""
        from worldsize.registry import load_module

        isolation = load_module(_ISOLATION, "a rehearsal")
        self.environ, own_disks = isolation.isolate(self.plan, self.paths, self.environ)
        self._mount_disks = isolation.mount_disks if own_disks else None

    def _is_stop_requested(self) -> bool:
        heard = self._signals.take()
        return self._cancelled or bool(heard & STOP) or STOP_NOW in heard

    def _write_handle(self) -> None:
        """Write the handle of this conductor's process (host, pid, start time) into the run directory, in case its
        starter died before it could. Then cancel the run if a cancel request was made before there was a handle."""
        handle = processes.local_handle(os.getpid(), self.plan.run_id, self.paths.root)
        # A full disk ends the run, and so does a missing run directory.
        write_or_note(partial(write_json, self.paths.handle, handle), "no handle written")
        if os.path.exists(self.paths.cancel):
            self._cancel()

    def _nodes(self) -> set[int]:
        return {node.node_rank for node in self.plan.agents}

    def _fork_agents(self, head: HeadResources) -> None:
        from worldsize.agent.supervision import hang_watch, rank_observers  # noqa: F401  imported once, for all agents

        if len(self.plan.agents) > 1:
            from worldsize.agent.control import peers  # noqa: F401  the same
        import_from(self.paths.agent)
        for node in self.plan.agents:
            pid = os.fork()
            if pid == 0:
                run_as_program(partial(self._run_agent, node.node_rank, head))
            self._agents[pid] = node.node_rank

    def _run_agent(self, node_rank: int, head: HeadResources) -> int:
        os.setpgid(0, 0)
        os.close(self._held)
        self._signals.forget()
        if self._mount_disks is not None:
            self._mount_disks(self.plan, self.paths, self.environ)
        mine = head if node_rank == 0 else None
        if mine is None and head.listener:
            head.listener.close()
        shared = self.environ, self._lifeline
        supervisor = Supervisor(
            self.plan, self.paths, node_rank, head.rendezvous, mine, *shared, notifications=self._notifications
        )
        return supervisor.run()

    def _wait_for_agents(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._signals, selectors.EVENT_READ)
        while self._agents:
            self._reap()
            if self._lost:
                end_orphans({*self._agents, *self._notifications.pids})
            if self._agents:
                selector.select(_TICK if self._end.kill_at is None else _BUSY_TICK)
                self._forward_signals()
                self._end_stopped()
                self._kill_overdue()

    def _reap(self) -> None:
        for pid, code in processes.reap():
            node_rank = self._agents.pop(pid, None)
            if node_rank is not None and code != 0:
                if read_exit(self.paths, node_rank) is None:
                    self._lost[node_rank] = agent_lost_verdict(node_rank, code, self._cancelled, pid in self._silent)
                    if self._may_go_on():
                        continue
                    self._signal_agents(signal.SIGTERM)  # the nodes that had not met the lost one yet would wait for it
                self._end.request(time.monotonic(), self.plan.grace + _OVERTIME)

    def _may_go_on(self) -> bool:
        """Return whether the run can continue without the nodes whose agents were lost: they are at most the plan's
        spare nodes, the head is not among them, and the run is not cancelled."""
        return len(self._lost) <= self.plan.spare and 0 not in self._lost and not self._cancelled

    def _forward_signals(self) -> None:
        """Pass the signals that the conductor has received on to every agent: TERM to cancel the run, QUIT to end it at
        once."""
        heard = self._signals.take()
        if STOP_NOW in heard:
            self._cancelled = True
            self._signal_agents(STOP_NOW)
            self._end.request(time.monotonic(), _OVERTIME)
        elif heard & STOP:
            self._cancel()

    def _cancel(self) -> None:
        self._cancelled = True
        self._signal_agents(signal.SIGTERM)
        self._end.request(time.monotonic(), self.plan.grace + _OVERTIME)

    def _signal_agents(self, number: int) -> None:
        for pid in self._agents:
            processes.signal_process(pid, number)
            processes.signal_process(pid, signal.SIGCONT)

    def _kill_overdue(self) -> None:
        """Kill the agents that still run after the time limit for the end of the run. They hang."""
        if self._end.is_overdue(time.monotonic()):
            for pid in self._agents:
                self._end_silent(pid)

    def _end_silent(self, pid: int) -> None:
        self._silent.add(pid)
        processes.signal_process(pid, signal.SIGKILL)

    def _end_stopped(self) -> None:
        now = time.monotonic()
        self._stopped_agents.record((pid for pid in processes.newly_stopped_children() if pid in self._agents), now)
        for pid in self._stopped_agents.overdue(now, processes.is_stopped):
            self._end_silent(pid)
