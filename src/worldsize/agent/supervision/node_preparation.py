"""What a node gets ready on its own disk before its ranks start, where the plan has `local`: done by a wing, found by
its name."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from worldsize.agent.outcome.node_record import NodeRecorder
from worldsize.common.named_tuple import Protocol
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import load_module
from worldsize.state.records import Failure


class NodePreparation(Protocol):
    """A preparation under way. It is readable, for a selector, once it is over: `ready`, or `failure` says why not."""

    failure: Failure | None
    ready: bool

    def fileno(self) -> int: ...

    def acknowledge(self) -> None:
        """Note that what made it readable has been noticed."""

    def finish(self, paths: RunPaths, report: NodeRecorder) -> tuple[Plan, Mapping[str, str]]:
        """Return the plan and the environment as they are on this node, once it is ready."""

    def close(self) -> None:
        """Leave nothing behind, or only what others still need."""


def begin_preparation(plan: Plan, environ: Mapping[str, str], node_rank: int) -> NodePreparation:
    """Begin to get this node's disk ready. ConfigError where this installation cannot do it."""
    found: NodePreparation = _load("preparation").NodePreparation(plan, environ, node_rank)
    return found


def remember_own_directory(base: str, environ: Mapping[str, str]) -> None:
    """Find this user's directory on the disks of this machine, before each virtual node has disks of its own.
    ConfigError where this installation cannot do it."""
    _load("directory").remember_own_directory(base, environ)


def _load(module: str) -> ModuleType:
    return load_module("wings.provisioning.agent." + module, "getting the nodes' disks ready")
