"""The agent's one loop: start the node's ranks, watch them, end them, and agree with the other nodes on what happened.

    joining ──all nodes here──▶ running ──ranks gone──▶ settling ──everybody done──▶ ended
       └─────── verdict ───────▶ stopping ──ranks gone──────▲

The first failing rank ends the run: TERM to every rank of every node, `grace` seconds, KILL, and then whatever they
left behind. The head decides which failure was first; every agent's exit code is that failure's.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from typing import Mapping

from worldsize.agent import processes, verdict
from worldsize.agent.failure import (
    for_want_of_space,
    is_peer_loss,
    oom_kills,
    precedence,
    rank_failure,
    read_error,
    start_failure,
)
from worldsize.agent.living import Ended, Living
from worldsize.agent.peers import meet
from worldsize.agent.ranks import node_processes
from worldsize.agent.rendezvous import Head, Rendezvous
from worldsize.agent.report import Report, disk_full
from worldsize.agent.signals import STOP, STOP_NOW, Signals
from worldsize.agent.torchrun import root_cause
from worldsize.agent.verdict import Verdict, weigh
from worldsize.plan.environ import Host, World
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.state.records import ExitRecord, Failure, Reason

TICK = 1.0
BUSY_TICK = 0.02
BEATS_PER_SILENCE = 9
PEER_LOSS_SETTLE = 0.3
LEFTOVER_GRACE = 5.0
LATE = 5.0
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
        self.started = time.time()
        self.verdict: Verdict | None = None
        self._host = Host(socket.gethostname(), os.cpu_count() or 1)
        self._report = Report(paths, node_rank, len(self.node.ranks))
        self._ranks = Living()
        self._selector = selectors.DefaultSelector()
        self._peers = meet(self._host, node_rank, rendezvous, head, len(plan.nodes), self._selector)
        self._launched = False
        self._node_done = False
        self._ended = False
        self._stopped_at = 0.0
        self._suspect: Failure | None = None
        self._oom_kills = oom_kills()
        self._beat_every = plan.silence / BEATS_PER_SILENCE
        now = self._ran_at = time.monotonic()
        self._deadline = now + plan.rendezvous_timeout
        self._beat_at = now + self._beat_every
        self._kill_at: float | None = None
        self._settle_at: float | None = None
        self._time_limit: float | None = None
        if lifeline is not None:
            self._selector.register(lifeline, selectors.EVENT_READ, lambda: self._lifeline_cut(lifeline))
        signals = Signals()
        self._selector.register(signals, selectors.EVENT_READ, lambda: self._signalled(signals.take()))

    def run(self) -> int:
        processes.become_subreaper()
        self._report.event("agent_started", pid=os.getpid(), host=self._host.name)
        self._gather()
        while not self._ended:
            for key, _ in self._selector.select(self._pause()):
                key.data()
            for heard in self._peers.hear():
                self._decide(heard.verdict, heard.binding)
            self._gather()
            self._reap()
            self._tick(time.monotonic())
        return self._finish()

    # starting

    def _gather(self) -> None:
        if self._launched or self.verdict is not None:
            return
        hosts = self._peers.gather()
        if hosts is not None:
            self._launch(World(self.rendezvous.address, self.rendezvous.port, hosts))

    def _launch(self, world: World) -> None:
        self._launched = True
        if self.plan.timeout is not None:
            self._time_limit = time.monotonic() + self.plan.timeout
        if self._report.deleted():
            self._run_directory_gone()
            return
        os.chdir(self.paths.code)
        for process in node_processes(self.plan, world, self.node, self.paths, self.environ):
            try:
                self._ranks.start(process)
            except OSError as error:
                root, full = self.paths.root, disk_full(self.paths.root)
                failure = start_failure(process.argv[0], process.ranks[0], self.node.node_rank, error, root, full)
                self._decide(Verdict(verdict.FAILURE, failure))
                break
        self._report.event("ranks_started", pids=self._ranks.pids())

    # what ends a run

    def _decide(self, heard: Verdict, binding: bool = False) -> None:
        """Weigh one more verdict, or adopt the head's; the first one of all starts the end of this node's ranks."""
        before = self.verdict
        self.verdict = heard if binding else weigh(before, heard)
        if self.verdict == before:
            return
        if not binding:
            self._peers.tell(self.verdict)
        self._report.event("stopping", **self.verdict.fields())
        if before is None:
            self._suspect = self._settle_at = None
            self._stopped_at = time.time()
            self._kill_at = time.monotonic() + self.plan.grace
            self._ranks.terminate()

    def _fail(self, why: str, reason: str, what: str, code: int = 1) -> None:
        """A verdict that is about no rank in particular."""
        self._decide(Verdict(why, Failure(reason, what, None, None, code, time.time())))

    def _signalled(self, numbers: set[int]) -> None:
        if numbers & STOP or STOP_NOW in numbers:
            self._decide(Verdict(verdict.CANCEL, None))
        if STOP_NOW in numbers:
            self._kill_at = time.monotonic()

    def _lifeline_cut(self, lifeline: int) -> None:
        self._selector.unregister(lifeline)
        what = "the process that held this run (its conductor) was killed"
        self._fail(verdict.CONDUCTOR_LOST, Reason.NODE_FAILURE, what)

    def _run_directory_gone(self) -> None:
        self._fail(verdict.DELETED, Reason.STORAGE, "the run directory was deleted (%s)" % self.paths.root)

    def _storage_full(self) -> None:
        what = "no space left where the run directory lies (%s)" % self.paths.root
        self._fail(verdict.STORAGE, Reason.STORAGE, what)

    # ranks that end

    def _reap(self) -> None:
        stopped = self.verdict is not None
        failures = []
        for ended in self._ranks.reap(stopped):
            self._report.event("rank_exited", ranks=ended.process.ranks, code=ended.code, stopped=stopped)
            if ended.code:
                failures += self._failures(ended)
        if stopped:
            failures = [failure for failure in failures if failure.time < self._stopped_at]
        if failures:
            self._rank_failed(min(failures, key=precedence))
        if (self._launched or stopped) and not self._ranks and self._settle_at is None and not self._node_done:
            self._end_leftovers()

    def _failures(self, ended: Ended) -> list[Failure]:
        """One for each of the process's ranks; torchrun, which stands for several, tells which one it was."""
        process, ranks, code = ended.process, ended.process.ranks, ended.code
        cause = root_cause(process.log) if self.plan.launcher == "torchrun" else None
        if cause is not None:
            ranks, code = (cause.rank,), cause.code
        told = process.environment.get("TORCHELASTIC_ERROR_FILE")
        oom = oom_kills() > self._oom_kills >= 0
        return [
            rank_failure(
                rank, self.node.node_rank, self._host.name, code, ended.time, read_error(self.paths, rank, told), oom
            )
            for rank in ranks
        ]

    def _rank_failed(self, failure: Failure) -> None:
        """Stop for it; but a lost peer is usually somebody else's death: wait a moment for the real one."""
        if failure.reason == Reason.EXIT_CODE and disk_full(self.paths.root):
            failure = for_want_of_space(failure, self.paths.root)
        if self.verdict is None and is_peer_loss(failure):
            if self._suspect is None or precedence(failure) < precedence(self._suspect):
                self._suspect = failure
            self._settle_at = self._settle_at or time.monotonic() + PEER_LOSS_SETTLE
        else:
            self._decide(Verdict(verdict.FAILURE, failure))

    def _end_leftovers(self) -> None:
        """The ranks are gone: this node is done once nothing that they started is left."""
        now = time.monotonic()
        if self._kill_at is None:
            self._kill_at = now + min(self.plan.grace, LEFTOVER_GRACE)
        if self._ranks.end_leftovers(at_once=now >= self._kill_at):
            self._node_done = True
            self._deadline = now + self.plan.grace + LATE
            self._peers.done()

    # time

    def _pause(self) -> float:
        """Seconds until something is due by itself."""
        if self._peers.impatient or (self._kill_at is not None and not self._node_done):
            return BUSY_TICK
        moments = (self._beat_at, self._settle_at, self._time_limit)
        return max(0.0, min(TICK, min(moment for moment in moments if moment is not None) - time.monotonic()))

    def _tick(self, now: float) -> None:
        if now - self._ran_at > self.plan.silence / 2:
            self._peers.forgive()
        self._ran_at = now
        if self.verdict is None and self._report.deleted():
            self._run_directory_gone()
        if self._settle_at is not None and now >= self._settle_at and self._suspect is not None:
            self._decide(Verdict(verdict.FAILURE, self._suspect))
        if self._kill_at is not None and now >= self._kill_at and self._ranks:
            self._ranks.kill()
        if self._time_limit is not None and now >= self._time_limit:
            self._time_limit = None
            what = "the time limit of %g s (limits.timeout) was reached" % (self.plan.timeout or 0)
            self._fail(verdict.TIMEOUT, Reason.TIME_LIMIT, what, TIMEOUT_CODE)
        if not self._launched and self.verdict is None and now > self._deadline:
            what = "%s within %g s" % (self._peers.absent(), self.plan.rendezvous_timeout)
            self._fail(verdict.FAILURE, Reason.RENDEZVOUS, what)
        if now >= self._beat_at:
            self._beat(now)
        if self._node_done:
            self._ended = self._peers.may_end(late=self.verdict is not None and now > self._deadline)

    def _beat(self, now: float) -> None:
        self._beat_at = now + self._beat_every
        if self._report.full:
            self._storage_full()
        for heard in self._peers.beat(self.plan.silence):
            self._decide(heard.verdict)

    # the end

    def _finish(self) -> int:
        if self.verdict is None:
            self._report.event("agent_ended")
            if self._report.full or disk_full(self.paths.root):
                self._storage_full()
        found = self.verdict
        code = found.code if found else 0
        ranks = tuple(sorted(self._ranks.exits))
        self._report.exit(
            ExitRecord(
                self.node.node_rank,
                self._host.name,
                self.plan.attempt,
                self.started,
                time.time(),
                ranks,
                found.why if found else None,
                found.failure if found else None,
                code,
            )
        )
        self._peers.close(found)
        return code
