"""The nodes of a compute, and commands on nodes allocated for them, which the wing `node_commands` executes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import cast
from worldsize.compute.base import Compute
from worldsize.compute.capabilities import CanExecute, ComputeNode, HasNodes, NodeCommand, NodeCommandStream
from worldsize.errors import UsageError
from worldsize.state.check_rows import WARNING, CheckRow

NODES_HINT = "`worldsize nodes --all` gives the reason"


def require_node_listing(compute: Compute) -> HasNodes:
    """Return the same compute. Raise UsageError if it cannot list its nodes."""
    if "nodes" not in compute.capabilities:
        raise UsageError(f"compute {compute.name} does not list its nodes")
    return cast(HasNodes, compute)


def default_nodes(compute: Compute) -> list[ComputeNode]:
    """Return the nodes that a run uses by default. Raise UsageError if the compute cannot list its nodes."""
    nodes = require_node_listing(compute).nodes()
    return [node for node in nodes if node.default_groups] or nodes


def usable_names(nodes: Sequence[ComputeNode], compute: str) -> tuple[str, ...]:
    """Return the names of those nodes that a run can use. Raise UsageError if there are none."""
    names = tuple(node.name for node in nodes if node.usable)
    if not names:
        raise UsageError(f"compute {compute} has no usable node", None, NODES_HINT)
    return names


def usable_nodes(compute: Compute) -> tuple[tuple[str, ...], int]:
    """Return the names of the nodes that a run uses by default, and the number of those that it cannot use now. Raise
    UsageError if there are none."""
    nodes = default_nodes(compute)
    names = usable_names(nodes, compute.name)
    return names, len(nodes) - len(names)


def left_out_rows(nodes: Sequence[ComputeNode], name: str) -> list[CheckRow]:
    """Return a row with the id `name` for each of the nodes that a run cannot use, which are not checked."""
    return [
        CheckRow(node.name, name, "left out", node.reason or node.state, WARNING, NODES_HINT)
        for node in nodes
        if not node.usable
    ]


def left_out_notice(left_out: int) -> str:
    """Return the notice that `left_out` nodes cannot be used."""
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
    """Execute a command on `count` nodes allocated for it, with `variables`, and return its stream. If `names` are
    given, these nodes are used. `limit` is the expected run time in seconds. Nodes must see the paths `named` as this
    machine does. Raise UsageError if the compute cannot execute commands on its nodes."""
    hosts = dict(enumerate(names))
    command = NodeCommand(
        tuple(argv), tuple(range(count)), cwd, hosts=hosts, limit=limit, variables=variables, named=tuple(named)
    )
    return require_exec(compute).execute(None, command)


def require_exec(compute: Compute) -> CanExecute:
    if "exec" not in compute.capabilities:
        raise UsageError(f"compute {compute.name} cannot execute commands on its nodes")
    return cast(CanExecute, compute)
