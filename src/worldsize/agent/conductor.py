"""A local run's one detached process: parent of its agents, heir of what they leave behind.

It outlives the CLI that forked it, forks its agents from its own warm interpreter (so that 256 virtual nodes start in
a fraction of what 256 programs would take), and writes the result when they have ended.
"""

from __future__ import annotations

import errno
import gc
import os
import selectors
import signal
import socket
import sys
import time
import traceback
from typing import Mapping, NoReturn

from worldsize.agent import processes
from worldsize.agent.rendezvous import Head, open_head
from worldsize.agent.supervise import Supervisor
from worldsize.errors import WorldsizeError
from worldsize.plan.files import write_json, write_once
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.state.exits import read_exit, read_exits
from worldsize.state.records import ExitRecord, Failure, Observation, Reason
from worldsize.state.result import result
from worldsize.state.status import Facts, fold

LOCAL_ADDRESS = "127.0.0.1"
_OVERTIME = 10.0


def fork_conductor(plan: Plan, paths: RunPaths, environ: Mapping[str, str]) -> int:
    """Start the run; the conductor's pid. The child never returns."""
    gc.collect()
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        _detached(plan, paths, environ)
    gc.unfreeze()
    return pid


def _detached(plan: Plan, paths: RunPaths, environ: Mapping[str, str]) -> NoReturn:
    code = 1
    try:
        os.setsid()
        os.umask(plan.umask)
        _redirect(os.path.join(paths.logs_dir, "conductor.log"))
        code = Conductor(plan, paths, environ).run()
    except BaseException:  # the top of a process: what it could not do must be on record before it ends
        traceback.print_exc()
    finally:
        os._exit(code)


def _redirect(log: str) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, null), (1, out), (2, out)):
        os.dup2(source, target)


class Conductor:
    def __init__(self, plan: Plan, paths: RunPaths, environ: Mapping[str, str]) -> None:
        self.plan = plan
        self.paths = paths
        self.environ = environ
        self.agents: dict[int, int] = {}
        self.lost: dict[int, int] = {}
        self.started = time.time()
        self.kill_at: float | None = None

    def run(self) -> int:
        """Start the agents, wait for all of them, write the result; the run's exit code."""
        processes.become_subreaper()
        wakeup = self._listen_to_signals()
        try:
            head = open_head(self.plan, self.paths, LOCAL_ADDRESS)
        except (OSError, WorldsizeError) as error:
            return self._could_not_start(error)
        held, lifeline = os.pipe()
        os.set_inheritable(held, False)
        for node in self.plan.nodes:
            pid = os.fork()
            if pid == 0:
                self._agent(node.node_rank, head, held, lifeline, wakeup)
            self.agents[pid] = node.node_rank
        if head.listener:
            head.listener.close()
        self._wait(wakeup)
        self._sweep()
        return self._conclude()

    def _agent(self, node_rank: int, head: Head, lifeline: int, held: int, wakeup: int) -> NoReturn:
        code = 1
        try:
            os.setpgid(0, 0)
            os.close(held)
            signal.set_wakeup_fd(-1)
            os.close(wakeup)
            mine = head if node_rank == 0 else None
            if node_rank != 0 and head.listener:
                head.listener.close()
            supervisor = Supervisor(
                self.plan, self.paths, node_rank, head.rendezvous, mine, self.environ, lifeline=lifeline
            )
            code = supervisor.run()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)

    def _listen_to_signals(self) -> int:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        return reading

    def _wait(self, wakeup: int) -> None:
        selector = selectors.DefaultSelector()
        selector.register(wakeup, selectors.EVENT_READ)
        while self.agents:
            for pid, code in processes.reap():
                node_rank = self.agents.pop(pid, None)
                if node_rank is not None and code != 0:
                    self.kill_at = self.kill_at or time.monotonic() + self.plan.grace + _OVERTIME
                    if read_exit(self.paths, node_rank) is None:
                        self.lost[node_rank] = code
            if self.lost:
                self._end_orphans()
            if self.agents:
                selector.select(1.0 if self.kill_at is None else 0.1)
                self._forward(wakeup)
                self._hurry()

    def _forward(self, wakeup: int) -> None:
        """Tell every agent what we were told. TERM stands for cancel; a second one for at once."""
        try:
            numbers = os.read(wakeup, 4096)
        except BlockingIOError:
            return
        for number in numbers:
            if number != signal.SIGCHLD:
                for pid in self.agents:
                    processes.signal_process(pid, signal.SIGTERM)
                self.kill_at = self.kill_at or time.monotonic() + self.plan.grace + _OVERTIME

    def _hurry(self) -> None:
        """Some agents have ended and others should have by now: they hang, so they are ended."""
        if self.kill_at is not None and time.monotonic() > self.kill_at:
            for pid in self.agents:
                processes.signal_process(pid, signal.SIGKILL)

    def _end_orphans(self) -> None:
        """The ranks of a lost agent are our children now, and nobody supervises them."""
        for pid in processes.children():
            if pid not in self.agents:
                processes.signal_group(pid, signal.SIGKILL)
                processes.signal_process(pid, signal.SIGKILL)

    def _sweep(self) -> None:
        """End what lost agents left: nothing of a run outlives its conductor."""
        while processes.children():
            for pid in processes.descendants():
                processes.signal_process(pid, signal.SIGKILL)
            for _ in processes.reap():
                pass
            time.sleep(0.002)

    def _conclude(self) -> int:
        exits = self._complete_exits()
        facts = Facts(
            len(self.plan.nodes),
            prepared=True,
            submitted=True,
            rejected=None,
            cancelled=os.path.exists(self.paths.cancel),
            launched=True,
            exits=exits,
            observation=Observation("ended"),
            settled=True,
        )
        status = fold(facts)
        try:
            write_once(self.paths.result, result(self.plan, status))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.ENOENT):
                raise
        return status.exit_code or 0

    def _complete_exits(self) -> tuple[ExitRecord, ...]:
        """The exit records, with one written by us for each agent that could not."""
        exits = {record.node_rank: record for record in read_exits(self.paths, len(self.plan.nodes))}
        for node in self.plan.nodes:
            if node.node_rank not in exits:
                exits[node.node_rank] = self._stand_in(node.node_rank)
        return tuple(exits[node_rank] for node_rank in sorted(exits))

    def _stand_in(self, node_rank: int) -> ExitRecord:
        code = self.lost.get(node_rank, 1)
        how = "was killed by signal %d" % (code - 128) if code > 128 else "failed (see logs/conductor.log)"
        now = time.time()
        failure = Failure(Reason.NODE_FAILURE, "the agent of node %d %s" % (node_rank, how), node_rank, None, code, now)
        record = ExitRecord(
            node_rank, socket.gethostname(), self.plan.attempt, self.started, now, (), "agent-lost", failure, code
        )
        try:
            write_json(self.paths.exit_record(node_rank), record.to_json())
        except OSError as error:
            print("no exit record for node %d: %s" % (node_rank, error), file=sys.stderr)
        return record

    def _could_not_start(self, error: Exception) -> int:
        failure = Failure(Reason.RENDEZVOUS, "the head could not be opened: %s" % error, 0, None, 1, time.time())
        record = ExitRecord(
            0, socket.gethostname(), self.plan.attempt, self.started, time.time(), (), "failure", failure, 1
        )
        for node in self.plan.nodes:
            write_json(self.paths.exit_record(node.node_rank), record._replace(node_rank=node.node_rank).to_json())
        return self._conclude()
