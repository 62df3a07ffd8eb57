"""The nodes of a compute, and commands on nodes of their own; the wing `node_commands` carries them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import cast
from worldsize.compute.base import Compute
from worldsize.compute.capabilities import CanExecute, ComputeNode, HasNodes, NodeCommand, NodeCommandStream
from worldsize.errors import UsageError
from worldsize.state.check_rows import WARNING, CheckRow

NODES_HINT = "`worldsize nodes --all` gives the reason"


def require_node_listing(compute: Compute) -> HasNodes:
    """Return the same compute. UsageError for one that does not know its nodes."""
    if "nodes" not in compute.capabilities:
        raise UsageError(f"compute {compute.name} does not list its nodes")
    return cast(HasNodes, compute)


def default_nodes(compute: Compute) -> list[ComputeNode]:
    """Return the nodes that a run goes to by default. UsageError where the compute does not know them."""
    nodes = require_node_listing(compute).nodes()
    return [node for node in nodes if node.default_groups] or nodes


def usable_names(nodes: Sequence[ComputeNode], compute: str) -> tuple[str, ...]:
    """Return the names of those nodes that a run can go to. UsageError where there are none."""
    names = tuple(node.name for node in nodes if node.usable)
    if not names:
        raise UsageError(f"compute {compute} has no usable node", None, NODES_HINT)
    return names


def usable_nodes(compute: Compute) -> tuple[tuple[str, ...], int]:
    """Return the names of the nodes that a run goes to by default, and how many of those it cannot go to now.
    UsageError where there are none."""
    nodes = default_nodes(compute)
    names = usable_names(nodes, compute.name)
    return names, len(nodes) - len(names)


def left_out_rows(nodes: Sequence[ComputeNode], name: str) -> list[CheckRow]:
    """Return a row of this id for each of the nodes that a run cannot go to, which are not looked at."""
    return [
        CheckRow(node.name, name, "left out", node.reason or node.state, WARNING, NODES_HINT)
        for node in nodes
        if not node.usable
    ]


def left_out_notice(left_out: int) -> str:
    """That so many nodes cannot be used."""
    said = "1 node is" if left_out == 1 else f"{left_out} nodes are"
    return f"{said} left out: {NODES_HINT}"


def execute_on_own_nodes(
    compute: Compute,
    argv: Sequence[str],
    count: int,
    cwd: str,
    limit: float | None,
    names: Sequence[str] = (),
    variables: Mapping[str, str] = {},
    named: Sequence[str] = (),
) -> NodeCommandStream:
    """On `count` nodes of its own, those of these `names` where they are said, with `variables`; `limit` seconds are
    what it is meant to take. Nodes are to see what is `named` as this machine does."""
    hosts = dict(enumerate(names))
    command = NodeCommand(
        tuple(argv), tuple(range(count)), cwd, hosts=hosts, limit=limit, variables=variables, named=tuple(named)
    )
    return require_exec(compute).execute(None, command)


def require_exec(compute: Compute) -> CanExecute:
    if "exec" not in compute.capabilities:
        raise UsageError(f"compute {compute.name} cannot execute commands on its nodes")
    return cast(CanExecute, compute)
