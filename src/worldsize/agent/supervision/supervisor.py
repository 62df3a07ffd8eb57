"""The agent's only loop: it starts the node's ranks, watches them, ends them, and agrees with the other nodes on the
outcome.

    joining ──all nodes here──▶ running ──ranks gone──▶ settling ──all nodes done──▶ ended
       └─────── verdict ───────▶ stopping ──ranks gone──────▲

The first failing rank ends the run: TERM to every rank of every node, then `grace` seconds, then KILL, and then the end
of all processes that they left behind. The head decides which failure was first. Every agent's exit code is that of
this failure.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Mapping

from worldsize.agent.control.meeting import make_peers
from worldsize.agent.control.ports import RAS_VARIABLE, reserve_ports, reserve_ras_port
from worldsize.agent.control.rendezvous import HeadResources, Rendezvous
from worldsize.agent.control.solo_peers import LeaderTracker
from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.agent.outcome import verdict
from worldsize.agent.outcome.node_record import NodeRecorder, is_disk_full
from worldsize.agent.outcome.notifications import Notifications
from worldsize.agent.outcome.rank_failure import without_secrets
from worldsize.agent.outcome.verdict import Verdict, failure_verdict
from worldsize.agent.posix import processes
from worldsize.agent.posix.signals import STOP, STOP_NOW, SignalPipe, is_in_step_cgroup, pass_on_notices
from worldsize.agent.supervision.deadlines import Deadline, Part, Suspension, is_silence_excused, seconds_until_due
from worldsize.agent.supervision.ended_ranks import EndedRanks
from worldsize.agent.supervision.heartbeat import Heartbeat
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.agent.supervision.run_end import RunEnd, suspension_verdict
from worldsize.plan.array import is_cancelled, load_trials
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import Plan
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import remove_secrets
from worldsize.state.records import ExitRecord, Failure, Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from worldsize.agent.supervision.hang_watch import HangWatch
    from worldsize.agent.supervision.node_preparation import NodePreparations
    from worldsize.agent.supervision.rank_observers import RankObservers
    from worldsize.agent.supervision.trial_stop_rule import StopRule

TICK = 1.0
BUSY_TICK = 0.02
_RELAY, _COMMANDS = "wings.mpi.agent.launcher_relay", "wings.node_commands.agent.command_watcher"
_HEADS_PATIENCE = 1.02
"""The factor by which the head waits longer for the nodes to join than the nodes do. A node that cannot join therefore
reports its reason before the head only reports it as missing."""


class Supervisor:
    """The agent of one node of one attempt. `run()` writes the exit record, and then returns the agent's exit code."""

    def __init__(
        self,
        plan: Plan,
        paths: RunPaths,
        node_rank: int,
        rendezvous: Rendezvous,
        head: HeadResources | None,
        environ: Mapping[str, str],
        lifeline: int | None = None,
        address: str | None = None,
        kept: bool = False,
        notifications: Notifications | None = None,
    ) -> None:
        """Prepare the agent: reserve its ports, open its records and its connection to the other nodes, and catch
        signals. The other end of `lifeline` is held by a local run's conductor, or by this agent's keeper if the agent
        is `kept`."""
        self.plan = plan = rendezvous.with_launcher(plan)
        self.paths = paths
        self.node = plan.nodes[node_rank]
        self.rendezvous = rendezvous
        self._ras_port = reserve_ras_port(plan, environ)
        if self._ras_port:
            environ = {**environ, RAS_VARIABLE: f"localhost:{self._ras_port.port}"}
        self.environ = environ
        self.started = time.time()
        self._host = Host(processes.host_name(), os.cpu_count() or 1)
        address = (rendezvous.address if head else address) or ""
        self._ports = reserve_ports(plan, self.node)
        if self._ports:
            self._host = self._host._replace(address=address, ports=tuple(each.port for each in self._ports))
        self._recorder = NodeRecorder(paths, node_rank, len(self.node.ranks))
        self._ranks = RankProcesses()
        self._selector = selectors.DefaultSelector()
        self._notifications = notifications if notifications is not None and node_rank == 0 else Notifications()
        self._notifications.attach(self._recorder, self._selector)
        endpoint, nodes = rendezvous.endpoint(paths), len(plan.agents)
        self._peers = make_peers(self._host, node_rank, rendezvous, head, endpoint, nodes, self._selector)
        if plan.leaders and node_rank == 0:
            self._peers.leader_tracker = LeaderTracker(plan)
        self._relay: Any = None
        if launcher_facts(plan.launcher).relay and len(plan.nodes) > 1:
            from worldsize.registry import load_module

            relay = load_module(_RELAY, f"the launcher {plan.launcher}").MessageRelay
            self._relay = relay(self._peers, self._selector, node_rank, paths.launch_dir)
            self.plan = self._relay.with_pipes(plan)
        self._launched = False
        self._ended_ranks = EndedRanks(plan, paths, node_rank)
        self._preparations: NodePreparations | None = None
        now = time.monotonic()
        patience = 1.0 if head is None else _HEADS_PATIENCE
        self._joining = Deadline(now + patience * plan.rendezvous_timeout)
        self.end = RunEnd(plan.grace, self._ranks, self._peers, self._recorder)
        beat = Heartbeat(plan, paths, self._ranks, self._peers, self._recorder, self.end, now)
        self._suspension = Suspension(now, plan.silence - beat.every)
        self._watches: tuple[RankObservers, HangWatch] | tuple[()] = ()
        joining = Part(self._joining.deadline, self._decide_joining)
        self._parts = [*self.end.parts, joining, beat.part]
        self._rule: StopRule | None = None
        if "search" in plan.options and node_rank == 0:
            self._rule = rule = load_trials("trial").Trial(plan, paths)
            self._parts.append(Part(rule.deadline, lambda now: self._decide(rule.tick(now))))
        self._keeper = os.getppid() if kept else 0
        self._is_local = lifeline is not None and not kept
        if lifeline is not None:
            self._selector.register(lifeline, selectors.EVENT_READ, lambda: self._handle_lifeline_cut(lifeline))
        signals = SignalPipe()
        self._selector.register(signals, selectors.EVENT_READ, lambda: self._handle_signals(signals.take()))
        if kept:
            processes.end_with_parent(0)  # from now on the lifeline reports the end of the keeper

    def run(self) -> int:
        processes.become_subreaper()
        self._recorder.write_event("agent_started", pid=os.getpid(), host=self._host.name)
        if self._rule is not None:
            obstacle = self._rule.prepare()
            self._peers.expects_all = obstacle is not None
            self.end.decide_failure(obstacle, time.monotonic())
        self._gather()
        while not self.end.may_leave(time.monotonic()):
            for key, _ in self._selector.select(self._pause()):
                key.data()
            for heard in self._peers.take_verdicts():
                self._decide(heard.verdict, heard.final)
            self._gather()
            self._reap()
            self._tick(time.monotonic())
        return self._finish()

    # starting

    def _gather(self) -> None:
        if self._launched:
            return
        if self.end.verdict is not None:
            if self._preparations is not None:
                self._preparations.stop()
            return
        hosts = self._peers.gather_hosts()
        if hosts is None:
            return
        world = RendezvousResult(self.rendezvous.address, self.rendezvous.port, hosts)
        if not self.plan.prepares_nodes or self._advance_preparations(world):
            self._launch(world)

    def _advance_preparations(self, world: RendezvousResult) -> bool:
        """Begin or continue the preparations of this node before its ranks start. Return whether this node and all
        other nodes of the run are ready."""
        if self._preparations is None:
            from worldsize.agent.supervision.node_preparation import NodePreparations  # few runs need it

            self._joining.at = None
            launch = NodeLaunch(self.plan, world, self.node, self.paths, self.environ)
            self._preparations = NodePreparations(
                launch, self._peers, self._selector, self._recorder, self._ranks.spared
            )
            self._parts.append(self._preparations.part)
        self._preparations.advance()
        self.end.decide_failure(self._preparations.failure, time.monotonic())
        return self._preparations.ready

    def _launch(self, world: RendezvousResult) -> None:
        self._launched, now = True, time.monotonic()
        self._peers.spare_nodes = self.plan.spare
        if self._rule is not None:
            self._rule.start(now)
        self._joining.at = None
        if self.plan.timeout is not None:
            self.end.start_time_limit(self.plan.timeout, now)
        if self._recorder.is_deleted():
            if self._preparations is not None:
                self._preparations.stop()
            return self._decide(verdict.deleted_verdict(self.paths.root))
        launch = NodeLaunch(self.plan, world, self.node, self.paths, self.environ)
        if self._preparations is not None:
            launch = self._preparations.launch
            self.plan, self.environ = launch.plan, launch.environ
        self._ended_ranks.hosts = [host.name for host in world.hosts]
        failure = self._ranks.start_all(launch)
        self.end.decide_failure(failure, time.monotonic())
        if self.plan.batch is not None or is_in_step_cgroup():
            pass_on_notices(self._ranks.running)
        self._recorder.write_event("ranks_started", **self._ranks.pids_and_cpus(), **_start_of(launch))
        if launch.forks is not None and launch.forks.doubt:
            text = f"ranks were started without preloaded modules: {launch.forks.doubt}"
            self._recorder.write_event("notice", id="plain-start", text=text)
        if self._peers.clock is not None:
            self._recorder.write_event("clock", **self._peers.clock._asdict())
        self._begin_watches()
        if self.plan.errands:
            from worldsize.registry import find_module  # few runs need it, and ranks start first

            if commands := find_module(_COMMANDS):
                commands.watch_commands(self.paths, self.node.node_rank, self.environ)

    def _begin_watches(self) -> None:
        """Begin the observation of this node's ranks, which have been started, and the watch for hangs. The modules of
        the watches are loaded while the ranks load."""
        from worldsize.agent.supervision.hang_watch import HangWatch
        from worldsize.agent.supervision.rank_observers import RankObservers

        observers = RankObservers(self._ranks, self._recorder)
        here = self._ended_ranks.hosts.count(self._host.name)
        observers.plan(self.plan, self.paths, self.node, self.environ, here, self._is_local)
        watch = HangWatch(self._ranks, self._peers, self._recorder, self.end)
        watch.plan_first(self.plan, self.paths, self.node.node_rank)
        self._watches = observers, watch
        self._parts += [*observers.parts, watch.part]

    # reasons for the end of a run

    def _decide(self, found: Verdict | None, final: bool = False) -> None:
        if found is not None:
            self.end.decide(found, time.monotonic(), final)

    def _handle_signals(self, numbers: set[int]) -> None:
        if numbers & STOP or STOP_NOW in numbers:
            now = time.monotonic()
            self._suspension.notice(now)
            suspended = suspension_verdict(self._suspension, now, self.node.node_rank, self._host.name)
            self._decide(suspended or Verdict(verdict.CANCEL, None))
        if STOP_NOW in numbers:
            self.end.cut_grace(time.monotonic())

    def _handle_lifeline_cut(self, lifeline: int) -> None:
        self._selector.unregister(lifeline)
        if self._keeper:
            has_keeper = os.getppid() == self._keeper
            return self._decide(verdict.starter_lost_verdict(self.node.node_rank, self._host.name, has_keeper))
        self._decide(verdict.conductor_lost_verdict())

    # ranks that end

    def _reap(self) -> None:
        stopped = self.end.verdict is not None
        failures: list[Failure] = []
        for ended in self._ranks.reap(stopped):
            self._recorder.write_event("rank_exited", ranks=ended.process.ranks, code=ended.code, stopped=stopped)
            if ended.code:
                found = self._ended_ranks.failures(ended, self.end.stopped_at if stopped else None)
                failures += [without_secrets(failure, self.plan) for failure in found]
            elif not stopped:
                if self.plan.batch is not None and is_cancelled(self.paths):
                    self._decide(Verdict(verdict.CANCEL, None))  # a script may exit with 0 although steps were ended
                self._peers.check_standstill = True
                if self.plan.leaders:
                    self._peers.report_ended(ended.process.ranks)
                if self._relay is not None:
                    self._relay.end_waiting_programs()
        now = time.monotonic()
        self.end.weigh_failures(failures, now)
        if self._launched or stopped:
            self.end.end_node(now)

    # time

    def _pause(self) -> float:
        """Return the seconds that the agent's loop may wait for input until a part of the supervisor is due by the
        clock."""
        now = time.monotonic()
        if self._peers.needs_quick_retry or self.end.needs_quick_look(now):
            return BUSY_TICK
        return seconds_until_due(self._parts, now, TICK)

    def _tick(self, now: float) -> None:
        if is_silence_excused(self._suspension.notice(now), self.plan.silence):
            self._peers.reset_silence()
        if self.end.verdict is None and self._recorder.is_deleted():
            self._decide(verdict.deleted_verdict(self.paths.root))
        for part in self._parts:
            part.tick(now)

    def _decide_joining(self, now: float) -> None:
        if self._joining.is_passed(now) and self.end.verdict is None:
            missing = self._peers.missing_text(f" within {self.plan.rendezvous_timeout:g} s")
            self._decide(failure_verdict(verdict.FAILURE, Reason.RENDEZVOUS, missing))

    # the end

    def _finish(self) -> int:
        if self.end.verdict is None:
            self._recorder.write_event("agent_ended")
            if self._recorder.full or is_disk_full(self.paths.root):
                self._decide(verdict.storage_full_verdict(self.paths.root))
        if self._rule is not None:
            self._decide(self._rule.conclude(self.end.verdict), final=True)
        found = self.end.verdict
        code = found.code if found else 0
        node_rank, host, attempt, now = self.node.node_rank, self._host.name, self.plan.attempt, time.time()
        ranks = tuple(sorted(self._ranks.exits))
        why, failure = (found.why, found.failure) if found else (None, None)
        without = self._peers.lost_nodes
        warnings = self._ended_ranks.warnings(ranks, self._ranks.leftovers) if code == 0 else ()
        if warnings and self.plan.strict:
            from worldsize.agent.supervision.warnings import strict_failure

            failure, code = strict_failure(warnings, node_rank), 1
        if self._launched and failure is not None:
            from worldsize.agent.outcome.circumstances import note_circumstances  # most runs succeed
            from worldsize.plan.rank_environment import search_environment

            is_own = failure.node_rank == node_rank
            pids = self._ranks.pids if is_own or not self._is_local else None  # one node reports for the machine
            argv, environ = None if is_own else self.plan.argv, search_environment(self.plan, self.environ)
            note_circumstances(self._recorder, failure, argv, environ, self.started, pids)
        for watch in self._watches:
            watch.finish()
        rule = self._rule if why != verdict.CANCEL and not self._recorder.is_deleted() else None
        if rule is not None:
            rule.write_record(failure)
        self._recorder.write_exit_record(
            ExitRecord(node_rank, host, attempt, self.started, now, ranks, why, failure, code, without, warnings)
        )
        if rule is not None:
            rule.write_outputs()  # this reads all trials: an agent killed here has its exit record
        if self.node.node_rank == 0 and (self._is_local or found is None or found.why == verdict.FAILURE):
            remove_secrets(self.paths)  # a scheduler may start again what was stopped
        if code:  # before the other nodes may end: a scheduler may kill the rest once one agent has failed
            self._notifications.tell_end()
        self._peers.close(found)
        self._notifications.tell_end()
        if self._preparations is not None:
            self._preparations.close()
        return code


def _start_of(launch: NodeLaunch) -> dict[str, str]:
    """Return a field of the event "ranks_started" with how the node's ranks have started: {"start": "warm"} if they
    were forked from a process with preloaded modules, {"start": "plain"} if that failed; {} if they were not meant to
    be forked."""
    if launch.forks is None:
        return {}
    return {"start": "plain" if launch.forks.doubt else "warm"}
