"""A local run's one detached process: parent of its agents, heir of what they leave behind.

It outlives the CLI that forked it, forks its agents from its own warm interpreter (so that 256 virtual nodes start in
a fraction of what 256 programs would take), and writes the result when they have ended.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import sys
import time
from functools import partial
from typing import Callable, Mapping, NoReturn

from worldsize.agent import processes
from worldsize.agent.conclude import Conclusion, agent_lost, no_agent, no_head
from worldsize.agent.rendezvous import Head, open_head
from worldsize.agent.signals import STOP, STOP_NOW, Signals, hold, release
from worldsize.agent.supervise import Supervisor
from worldsize.agent.verdict import Verdict
from worldsize.errors import WorldsizeError
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.state.exits import read_exit

LOCAL_ADDRESS = "127.0.0.1"
_OVERTIME = 10.0
_TICK = 1.0
_BUSY_TICK = 0.1


def fork_conductor(plan: Plan, paths: RunPaths, environ: Mapping[str, str]) -> int:
    """Start the run; the conductor's pid. The child never returns."""
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        _detached(plan, paths, environ)
    gc.unfreeze()
    return pid


def spawn_conductor(paths: RunPaths, environ: Mapping[str, str]) -> int:
    """The same as a program of its own, for a process with several threads: a fork would copy their locks, held."""
    return os.posix_spawn(
        sys.executable,
        [sys.executable, paths.agent, paths.root, "--conduct"],
        environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, _log(paths), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
    )


def _log(paths: RunPaths) -> str:
    return os.path.join(paths.logs_dir, "conductor.log")


def _detached(plan: Plan, paths: RunPaths, environ: Mapping[str, str]) -> NoReturn:
    def conduct() -> int:
        gc.enable()
        os.setsid()
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # what a terminal sent before we had left it was not for us
        os.umask(plan.umask)
        _redirect(_log(paths))
        return Conductor(plan, paths, environ).run()

    _as_program(conduct)


def _as_program(run: Callable[[], int]) -> NoReturn:
    """The top of a forked process: it ends here, with `run`'s code, whatever happens."""
    code = 1
    try:
        code = run()
    except BaseException:  # noqa: BLE001  what it could not do must be on record before it ends
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def _redirect(log: str) -> None:
    """Keep nothing open of the process that we were forked from: its pipes and sockets end when it does."""
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, null), (1, out), (2, out)):
        os.dup2(source, target)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


class Conductor:
    def __init__(self, plan: Plan, paths: RunPaths, environ: Mapping[str, str]) -> None:
        self.plan = plan
        self.paths = paths
        self.environ = dict(environ)  # os.environ decodes every value each time that it is read
        self._conclusion = Conclusion(plan, paths)
        self._agents: dict[int, int] = {}
        self._lost: dict[int, Verdict] = {}
        self._cancelled = False
        self._stopped: dict[int, float] = {}
        self._silent: set[int] = set()
        self._kill_at: float | None = None
        self._signals = Signals()
        # The agents watch the reading end: it tells them when the one process that holds the other end is no more.
        self._lifeline, self._held = os.pipe()

    def run(self) -> int:
        """Start the agents, wait for all of them, write the result; the run's exit code."""
        processes.become_subreaper()
        try:
            head = open_head(self.plan, self.paths, LOCAL_ADDRESS)
        except (OSError, WorldsizeError) as error:
            return self._conclusion.write({node.node_rank: no_head(error) for node in self.plan.nodes})
        hold()
        try:
            self._fork_agents(head)
        except OSError as error:  # no more processes for this user
            started = self._agents.values()
            self._lost = {node.node_rank: no_agent(error) for node in self.plan.nodes if node.node_rank not in started}
            self._tell(signal.SIGTERM)
        release()
        os.close(self._lifeline)
        if head.listener:
            head.listener.close()
        self._wait()
        self._sweep()
        return self._conclusion.write(self._lost)

    def _fork_agents(self, head: Head) -> None:
        for node in self.plan.nodes:
            pid = os.fork()
            if pid == 0:
                _as_program(partial(self._agent, node.node_rank, head))
            self._agents[pid] = node.node_rank

    def _agent(self, node_rank: int, head: Head) -> int:
        os.setpgid(0, 0)
        os.close(self._held)
        self._signals.forget()
        mine = head if node_rank == 0 else None
        if mine is None and head.listener:
            head.listener.close()
        return Supervisor(self.plan, self.paths, node_rank, head.rendezvous, mine, self.environ, self._lifeline).run()

    def _wait(self) -> None:
        selector = selectors.DefaultSelector()
        selector.register(self._signals, selectors.EVENT_READ)
        while self._agents:
            self._reap()
            if self._lost:
                self._end_orphans()
            if self._agents:
                selector.select(_TICK if self._kill_at is None else _BUSY_TICK)
                self._forward()
                self._end_stopped()
                self._hurry()

    def _reap(self) -> None:
        for pid, code in processes.reap():
            node_rank = self._agents.pop(pid, None)
            if node_rank is not None and code != 0:
                self._end_within(self.plan.grace + _OVERTIME)
                if read_exit(self.paths, node_rank) is None:
                    self._lost[node_rank] = agent_lost(node_rank, code, self._cancelled, pid in self._silent)
                    self._tell(signal.SIGTERM)  # those who had not met it yet would wait for it

    def _forward(self) -> None:
        """Tell every agent what we were told: TERM stands for cancel, QUIT for at once."""
        heard = self._signals.take()
        self._cancelled = self._cancelled or bool(heard & STOP or STOP_NOW in heard)
        if STOP_NOW in heard:
            self._tell(STOP_NOW)
            self._end_within(_OVERTIME)
        elif heard & STOP:
            self._tell(signal.SIGTERM)
            self._end_within(self.plan.grace + _OVERTIME)

    def _tell(self, number: int) -> None:
        for pid in self._agents:
            processes.signal_process(pid, number)
            processes.signal_process(pid, signal.SIGCONT)

    def _end_within(self, seconds: float) -> None:
        at = time.monotonic() + seconds
        self._kill_at = at if self._kill_at is None else min(self._kill_at, at)

    def _hurry(self) -> None:
        """Some agents have ended and others should have by now: they hang, so they are ended."""
        if self._kill_at is not None and time.monotonic() > self._kill_at:
            for pid in self._agents:
                self._end_silent(pid)

    def _end_silent(self, pid: int) -> None:
        self._silent.add(pid)
        processes.signal_process(pid, signal.SIGKILL)

    def _end_stopped(self) -> None:
        """An agent that stays stopped (SIGSTOP) cannot supervise: it counts as lost, as a silent node does."""
        now = time.monotonic()
        for pid in processes.newly_stopped():
            if pid in self._agents:
                self._stopped[pid] = now
        for pid, since in list(self._stopped.items()):
            if not processes.is_stopped(pid):
                del self._stopped[pid]
            elif now - since > self.plan.silence:
                self._end_silent(pid)

    def _end_orphans(self) -> None:
        """The ranks of a lost agent are our children now, and nobody supervises them."""
        for pid in processes.children():
            if pid not in self._agents:
                processes.signal_group(pid, signal.SIGKILL)
                processes.signal_process(pid, signal.SIGKILL)

    def _sweep(self) -> None:
        """End what lost agents left: nothing of a run outlives its conductor."""
        pause = 0.001
        while True:
            for _ in processes.reap():
                pass
            left = processes.descendants()
            if not left:
                return
            for pid in left:
                processes.signal_process(pid, signal.SIGKILL)
            time.sleep(pause)
            pause = min(2 * pause, _BUSY_TICK)
