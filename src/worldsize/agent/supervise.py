"""The agent's one loop: start the node's ranks, watch them, end them, and agree with the other nodes on what happened.

    joining ──all nodes here──▶ running ──ranks gone──▶ settling ──everybody done──▶ ended
       └──────── stop ────────▶ stopping ──ranks gone──────▲

The first failing rank ends the run: TERM to every rank of every node, `grace` seconds, KILL, and then whatever they
left behind. The head decides which failure was first; every agent's exit code is that failure's.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from typing import Mapping

from worldsize.agent import processes
from worldsize.agent.channel import GONE, HeadChannel, MemberChannel
from worldsize.agent.failure import is_peer_loss, oom_kills, precedence, rank_failure, read_error
from worldsize.agent.ranks import Process, node_processes
from worldsize.agent.rendezvous import Head, Rendezvous
from worldsize.agent.report import Report, disk_full
from worldsize.plan.environ import Host, World
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.state.records import ExitRecord, Failure, RankExit, Reason

TICK = 1.0
HEARTBEAT = 5.0
SILENCE = 45.0
PEER_LOSS_SETTLE = 0.3
CANCELLED_CODE = 143
TIMEOUT_CODE = 124


class Supervisor:
    """One node of one attempt. `run()` returns the agent's exit code and has written the exit record by then."""

    def __init__(
        self,
        plan: Plan,
        paths: RunPaths,
        node_rank: int,
        rendezvous: Rendezvous,
        head: Head | None,
        environ: Mapping[str, str],
        lifeline: int | None = None,
    ) -> None:
        self.plan = plan
        self.paths = paths
        self.node = plan.nodes[node_rank]
        self.rendezvous = rendezvous
        self.environ = environ
        self.host = Host(socket.gethostname(), os.cpu_count() or 1)
        self.report = Report(paths, node_rank)
        self.selector = selectors.DefaultSelector()
        self.started = time.time()
        self.living: dict[int, tuple[Process, float]] = {}
        self.exits: list[RankExit] = []
        self.failure: Failure | None = None
        self.stop_why: str | None = None
        self.stopped_at = 0.0
        self.kill_at: float | None = None
        self.settle_at: float | None = None
        self.launched = False
        self.local_done = False
        self.ended = False
        self.members_done: set[int] = set()
        self._killed = False
        self._deadline = time.monotonic() + plan.rendezvous_timeout
        self._beat_at = time.monotonic() + HEARTBEAT
        self._time_limit: float | None = None
        self._oom_kills = oom_kills()
        self.head_channel: HeadChannel | None = None
        self.member_channel: MemberChannel | None = None
        if head is not None and head.listener is not None:
            self.head_channel = HeadChannel(head.listener, rendezvous.token, len(plan.nodes), self.selector)
        elif head is None:
            self.member_channel = MemberChannel((rendezvous.address, rendezvous.control_port), self.selector)
        if lifeline is not None:
            self.selector.register(lifeline, selectors.EVENT_READ, lambda: self._lifeline_cut(lifeline))
        self._listen_to_signals()

    def run(self) -> int:
        processes.become_subreaper()
        self.report.event("agent_started", pid=os.getpid(), host=self.host.name)
        self._join()
        while not self.ended:
            for key, _ in self.selector.select(self._pause()):
                key.data()
            self._hear()
            self._reap()
            self._tick()
        return self._finish()

    def stop(self, why: str, failure: Failure | None = None) -> None:
        """End this node's ranks and, through the head, everybody's. A second call changes nothing but an earlier
        failure for a later one."""
        if failure is not None and (self.failure is None or precedence(failure) < precedence(self.failure)):
            self.failure = failure
            if self.head_channel and self.stop_why:
                self.head_channel.send("stop", why=self.stop_why, failure=failure._asdict())
        if self.stop_why is not None:
            return
        self.stop_why = why
        self.stopped_at = time.time()
        self.settle_at = None
        self.report.event("stopping", why=why, failure=self.failure._asdict() if self.failure else None)
        self.kill_at = time.monotonic() + self.plan.grace
        if self.head_channel:
            self.head_channel.send("stop", why=why, failure=self.failure._asdict() if self.failure else None)
        elif self.member_channel and self.failure:
            self.member_channel.send("failed", failure=self.failure._asdict())
        elif self.member_channel:
            self.member_channel.send("cancel")
        for pid in self.living:
            processes.signal_group(pid, signal.SIGTERM)

    # joining

    def _join(self) -> None:
        if self.head_channel is None and self.member_channel is None:
            self._launch((self.host,))

    def _connect(self) -> None:
        channel = self.member_channel
        if channel is None or channel.connected:
            return
        if channel.connect(timeout=TICK):
            channel.send(
                "hello",
                node_rank=self.node.node_rank,
                token=self.rendezvous.token,
                host=self.host.name,
                cores=self.host.cores,
            )

    def _launch(self, hosts: tuple[Host, ...]) -> None:
        self.launched = True
        world = World(self.rendezvous.address, self.rendezvous.port, hosts)
        if self.plan.timeout is not None:
            self._time_limit = time.monotonic() + self.plan.timeout
        os.chdir(self.paths.code)
        for process in node_processes(self.plan, world, self.node, self.paths, self.environ):
            if not self._spawn(process):
                break
        pids = {process.ranks[0]: pid for pid, (process, _) in self.living.items()}
        self.report.event("ranks_started", pids=pids)

    def _spawn(self, process: Process) -> bool:
        now = time.time()
        program = processes.find_program(process.argv[0], process.environment)
        try:
            if program is None:
                raise FileNotFoundError(2, "command not found")
            with processes.bound_to(process.cpus):
                pid = processes.spawn(program, process.argv, process.environment, process.log)
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            self.exits.extend(RankExit(rank, code, now, now) for rank in process.ranks)
            what = "%s: %s" % (process.argv[0], error.strerror)
            reason = Reason.STORAGE if disk_full(self.paths.root) else Reason.EXIT_CODE
            self.stop("failure", Failure(reason, what, self.node.node_rank, process.ranks[0], code, now))
            return False
        self.living[pid] = (process, now)
        return True

    # news

    def _hear(self) -> None:
        if self.head_channel:
            for node_rank, message in self.head_channel.take():
                self._hear_member(node_rank, message)
            if not self.launched and not self.stop_why and self.head_channel.complete():
                others = self.head_channel.hosts
                hosts = (self.host, *(Host(*others[rank]) for rank in sorted(others)))
                self.head_channel.send("start", hosts=hosts)
                self._launch(hosts)
        elif self.member_channel:
            for message in self.member_channel.take():
                self._hear_head(message)

    def _hear_member(self, node_rank: int, message: dict) -> None:  # type: ignore[type-arg]
        kind = message["kind"]
        if kind == "failed":
            self.stop("failure", Failure(**message["failure"]))
        elif kind == "cancel":
            self.stop("cancel")
        elif kind == "done":
            self.members_done.add(node_rank)
        elif kind == GONE and node_rank not in self.members_done:
            self.members_done.add(node_rank)
            self._node_lost(node_rank, "its agent is gone (connection lost)")

    def _hear_head(self, message: dict) -> None:  # type: ignore[type-arg]
        kind = message["kind"]
        if kind == "start":
            self._launch(tuple(Host(*host) for host in message["hosts"]))
        elif kind == "stop":
            failure = Failure(**message["failure"]) if message["failure"] else None
            self.stop(message["why"], failure)
            self.stop_why = message["why"]
            self.failure = failure or self.failure
        elif kind == "end":
            self.ended = self.local_done
        elif kind == GONE and not self.ended:
            self._head_lost("the head's agent is gone (connection lost)")

    def _node_lost(self, node_rank: int, what: str) -> None:
        message = "node %d: %s" % (node_rank, what)
        self.stop("failure", Failure(Reason.NODE_FAILURE, message, node_rank, None, 1, time.time()))

    def _head_lost(self, what: str) -> None:
        if self.stop_why is None:
            self.stop("head-lost", Failure(Reason.NODE_FAILURE, what, 0, None, 1, time.time()))
        self.member_channel = None

    def _lifeline_cut(self, lifeline: int) -> None:
        self.selector.unregister(lifeline)
        what = "the process that held this run (its conductor) was killed"
        self.stop("conductor-lost", Failure(Reason.NODE_FAILURE, what, None, None, 1, time.time()))

    def _listen_to_signals(self) -> None:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        self.selector.register(reading, selectors.EVENT_READ, lambda: self._signalled(os.read(reading, 4096)))

    def _signalled(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGCHLD:
                continue
            if self.stop_why == "cancel":
                self.kill_at = time.monotonic()
            self.stop("cancel")

    # ranks that end

    def _reap(self) -> None:
        failures = []
        for pid, code in processes.reap():
            if pid in self.living:
                process, started = self.living.pop(pid)
                failures.extend(self._rank_ended(pid, process, started, code))
        if failures:
            self._rank_failed(min(failures, key=precedence))
        if self.launched or self.stop_why:
            self._sweep()

    def _rank_ended(self, pid: int, process: Process, started: float, code: int) -> list[Failure]:
        now = time.time()
        stopped = self.stop_why is not None
        self.exits.extend(RankExit(rank, code, started, now, stopped) for rank in process.ranks)
        self.report.event("rank_exited", ranks=process.ranks, code=code, stopped=stopped)
        if code == 0:
            return []
        processes.signal_group(pid, signal.SIGTERM)
        if stopped and self.stop_why != "failure":
            return []
        killed = oom_kills() > self._oom_kills >= 0
        told = process.environment.get("TORCHELASTIC_ERROR_FILE")
        failures = [
            rank_failure(
                rank, self.node.node_rank, self.host.name, code, now, read_error(self.paths, rank, told), killed
            )
            for rank in process.ranks
        ]
        return [failure for failure in failures if not stopped or failure.time < self.stopped_at]

    def _rank_failed(self, failure: Failure) -> None:
        """Stop for it; but a lost peer is usually somebody else's death: wait a moment for the real one."""
        if failure.reason == Reason.EXIT_CODE and disk_full(self.paths.root):
            failure = failure._replace(reason=Reason.STORAGE)
        if is_peer_loss(failure) and self.stop_why is None:
            if self.failure is None or precedence(failure) < precedence(self.failure):
                self.failure = failure
            self.settle_at = self.settle_at or time.monotonic() + PEER_LOSS_SETTLE
        else:
            self.stop("failure", failure)

    def _sweep(self) -> None:
        """End what the ranks left behind, once they are gone; then this node is done."""
        if self.living or self.local_done or self.settle_at is not None:
            return
        left = processes.children()
        if left:
            if self.kill_at is None:
                self.kill_at = time.monotonic() + min(self.plan.grace, HEARTBEAT)
            number = signal.SIGKILL if time.monotonic() >= self.kill_at else signal.SIGTERM
            for pid in left:
                processes.signal_process(pid, number)
                processes.signal_process(pid, signal.SIGCONT)
            return
        self.local_done = True
        self._deadline = time.monotonic() + self.plan.grace + HEARTBEAT
        if self.member_channel:
            self.member_channel.send("done")
        elif self.head_channel is None:
            self.ended = True

    # time

    def _pause(self) -> float:
        now = time.monotonic()
        moments = [self._beat_at, self.kill_at, self.settle_at, self._time_limit]
        pause = min([TICK] + [moment - now for moment in moments if moment is not None and moment > now])
        if self.kill_at is not None or (self.member_channel and not self.member_channel.connected):
            pause = min(pause, 0.02)
        return pause

    def _tick(self) -> None:
        now = time.monotonic()
        if self.settle_at is not None and now >= self.settle_at:
            failure, self.failure, self.settle_at = self.failure, None, None
            self.stop("failure", failure)
        if self.kill_at is not None and now >= self.kill_at and not self._killed and self.living:
            self._kill()
        if self._time_limit is not None and now >= self._time_limit:
            self._time_limit = None
            what = "the time limit of %g s (limits.timeout) was reached" % (self.plan.timeout or 0)
            self.stop("timeout", Failure(Reason.TIME_LIMIT, what, None, None, TIMEOUT_CODE, time.time()))
        if not self.launched and not self.stop_why:
            self._connect()
            if now > self._deadline:
                self._not_complete()
        if self.local_done:
            self._settle(now)
        if now >= self._beat_at:
            self._beat(now)

    def _kill(self) -> None:
        self._killed = True
        for pid in processes.descendants():
            processes.signal_process(pid, signal.SIGKILL)

    def _not_complete(self) -> None:
        if self.head_channel:
            missing = sorted(set(range(1, len(self.plan.nodes))) - set(self.head_channel.hosts))
            what = "%d of %d nodes did not come up within %g s: %s" % (
                len(missing),
                len(self.plan.nodes),
                self.plan.rendezvous_timeout,
                ", ".join(map(str, missing)),
            )
        else:
            what = "node %d could not join the head at %s within %g s" % (
                self.node.node_rank,
                self.rendezvous.address,
                self.plan.rendezvous_timeout,
            )
        self.stop("failure", Failure(Reason.RENDEZVOUS, what, self.node.node_rank, None, 1, time.time()))

    def _settle(self, now: float) -> None:
        """The head ends when all are done; a member when the head says so; both when the other side is past waiting."""
        if self.head_channel:
            if len(self.members_done) >= self.head_channel.expected or (self.stop_why and now > self._deadline):
                self.head_channel.send("end")
                self.ended = True
        elif self.member_channel is None or (self.stop_why and now > self._deadline):
            self.ended = True

    def _beat(self, now: float) -> None:
        self._beat_at = now + HEARTBEAT
        if self.report.deleted():
            self.stop("deleted", Failure(Reason.STORAGE, "the run directory was deleted", None, None, 1, time.time()))
        elif self.report.full:
            self._storage_full()
        if self.head_channel:
            self.head_channel.send("ping")
            for node_rank in self.head_channel.silent(SILENCE):
                self.head_channel.drop(node_rank)
                self.members_done.add(node_rank)
                self._node_lost(node_rank, "its agent has not been heard of for %d s" % SILENCE)
        elif self.member_channel:
            self.member_channel.send("ping")
            if self.member_channel.silent(SILENCE):
                self.member_channel.close()
                self._head_lost("the head's agent has not been heard of for %d s" % SILENCE)

    def _storage_full(self) -> None:
        what = "no space left where the run directory lies (%s)" % self.paths.root
        self.stop("storage", Failure(Reason.STORAGE, what, self.node.node_rank, None, 1, time.time()))

    # the end

    def _finish(self) -> int:
        if self.failure is None and self.stop_why is None:
            self.report.event("agent_ended")
            if self.report.full:
                self._storage_full()
        code = self.failure.code if self.failure else CANCELLED_CODE if self.stop_why else 0
        record = ExitRecord(
            self.node.node_rank,
            self.host.name,
            self.plan.attempt,
            self.started,
            time.time(),
            tuple(sorted(self.exits)),
            self.stop_why,
            self.failure,
            code,
        )
        self.report.exit(record)
        if self.head_channel:
            self.head_channel.close()
        return code
