"""The preparations of a node before its ranks start: its own disk is made ready, and the node is checked. Each
preparation is implemented by a wing, which is found by its name. The preparations run one after another. The next one
begins once all nodes have completed the one before."""

from __future__ import annotations

import selectors
from collections.abc import Callable, Iterable, Mapping

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.agent.outcome.node_record import NodeRecorder
from worldsize.agent.supervision.deadlines import Part
from worldsize.common.named_tuple import NamedTuple, Protocol
from worldsize.plan.plan import Plan
from worldsize.registry import load_module
from worldsize.state.records import Failure


class NodePreparation(Protocol):
    """A preparation in progress, for a selector: `acknowledge` must be called whenever it is readable. It is over once
    `ready` is true, or once `failure` contains the reason why it never will be. A preparation that is `ready` from the
    start is never readable."""

    failure: Failure | None
    ready: bool

    def fileno(self) -> int: ...

    def acknowledge(self) -> None:
        """Process the input that made this preparation of the node readable for the selector."""

    def deadline(self) -> float | None:
        """Return the time of the next action of this preparation's `tick`, in seconds of the monotonic clock; None if
        there is none."""

    def tick(self, now: float) -> None:
        """Perform the action of this preparation that is due at the time `now` (monotonic clock)."""

    def finish(self, recorder: NodeRecorder) -> NodeLaunch:
        """Return the description of the ranks' launch on this node, as this preparation has changed it. Call this once
        the preparation is ready."""

    def stop(self) -> Iterable[int]:
        """Stop the rest of this preparation of the node, ready or not, without waiting. Keep the parts that the launch
        of the ranks uses. Return the pids of the processes that may continue for a while."""

    def close(self) -> None:
        """Remove everything that this preparation has created on the node, except for what other runs or nodes still
        need."""


class _Kind(NamedTuple):
    """A kind of preparation: a module whose `Preparation(launch, peers)` begins at once and returns a
    NodePreparation."""

    module: str
    what: str
    applies: Callable[[Plan], bool]


_DISK = "preparing the nodes' disks"
_KINDS = (
    _Kind("wings.provisioning.agent.preparation", _DISK, lambda plan: plan.local is not None),
    _Kind("wings.checks.agent.preparation", "checking nodes", lambda plan: "check" in plan.options),
    _Kind("wings.warm_start.agent.preparation", "preloading modules", lambda plan: bool(plan.start.modules)),
)


class NodePreparations:
    """The preparations of one node, one after another.

    launch   the launch of the ranks, as changed by the completed preparations
    failure  the reason why a preparation cannot be done, or None
    ready    whether all preparations are done, on all nodes
    part     the part that acts by the clock
    """

    def __init__(
        self,
        launch: NodeLaunch,
        peers: Peers,
        selector: selectors.BaseSelector,
        recorder: NodeRecorder,
        spared: set[int],
    ) -> None:
        """Collect the preparations of this node that apply to the plan, without beginning them. The pids of processes
        that may be left for a while, because they wait for a dead file server, are added to `spared`."""
        self.launch = launch
        self.failure: Failure | None = None
        self.ready = False
        self._peers = peers
        self._selector = selector
        self._recorder = recorder
        self._spared = spared
        self._due = [kind for kind in _KINDS if kind.applies(launch.plan)]
        self._begun: list[NodePreparation] = []
        self._current: NodePreparation | None = None
        self._registered: int | None = None
        self.part = Part(self._deadline, self._tick)

    def advance(self) -> None:
        """Finish the current preparation of this node if it is ready, and begin the next one once all nodes have
        completed the one before. Set `ready` after the last. Raise ConfigError if this installation does not support a
        preparation."""
        while not self.ready:
            if self._current is not None:
                self.failure = self._current.failure
                if not self._current.ready:
                    return
                self.launch = self._current.finish(self._recorder)
                self._end_current()
            if self._begun and not self._peers.report_ready(len(self._begun)):
                return
            if self._due:
                self._begin(self._due.pop(0))
            else:
                self.ready = True

    def _begin(self, kind: _Kind) -> None:
        made: NodePreparation = load_module(kind.module, kind.what).Preparation(self.launch, self._peers)
        self._begun.append(made)
        self._current = made
        if not made.ready:
            self._selector.register(made, selectors.EVENT_READ, made.acknowledge)
            self._registered = made.fileno()

    def _deadline(self) -> float | None:
        return self._current.deadline() if self._current is not None else None

    def _tick(self, now: float) -> None:
        if self._current is not None:
            self._current.tick(now)

    def stop(self) -> None:
        """Stop the current preparation of this node, and the process that waits to fork ranks, because the ranks will
        not start."""
        self._due = []
        if self._current is not None:
            self._end_current()
        if self.launch.forks is not None:
            self.launch.forks.close()

    def _end_current(self) -> None:
        assert self._current is not None
        if self._registered is not None:
            self._selector.unregister(self._registered)
            self._registered = None
        self._spared.update(self._current.stop())
        self._current = None

    def close(self) -> None:
        for each in self._begun:
            each.close()


def remember_own_directory(base: str, environ: Mapping[str, str]) -> None:
    """Find this user's directory below `base` on the disks of this machine, before each virtual node has its own disks.
    Raise ConfigError if this installation does not support it."""
    load_module("wings.provisioning.agent.directory", _DISK).remember_own_directory(base, environ)
