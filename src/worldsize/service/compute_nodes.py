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
    """Return `compute`, typed as one that can list its nodes. Raise UsageError if it cannot."""
    if "nodes" not in compute.capabilities:
        raise UsageError(f"compute {compute.name} does not list its nodes")
    return cast(HasNodes, compute)


def default_nodes(compute: Compute) -> list[ComputeNode]:
    """Return the nodes of `compute` that a run uses by default: those in the groups (partitions) of a run that names
    none, else all nodes. Raise UsageError if the compute cannot list its nodes."""
    nodes = require_node_listing(compute).nodes()
    return [node for node in nodes if node.default_groups] or nodes


def usable_names(nodes: Sequence[ComputeNode], compute: str) -> tuple[str, ...]:
    """Return the names of those of `nodes` that a run can use now. Raise UsageError, which names the `compute`, if
    there are none."""
    names = tuple(node.name for node in nodes if node.usable)
    if not names:
        raise UsageError(f"compute {compute} has no usable node", None, NODES_HINT)
    return names


def usable_nodes(compute: Compute) -> tuple[tuple[str, ...], int]:
    """Return the names of the nodes of `compute` that a run uses by default and can use now, and the number of default
    nodes that it cannot use now. Raise UsageError if there are no usable nodes, or if the compute cannot list them."""
    nodes = default_nodes(compute)
    names = usable_names(nodes, compute.name)
    return names, len(nodes) - len(names)


def left_out_rows(nodes: Sequence[ComputeNode], name: str) -> list[CheckRow]:
    """Return a row of the node check's table, with the check's id `name` and the result "left out", for each of `nodes`
    that a run cannot use. Such nodes are not checked."""
    return [
        CheckRow(node.name, name, "left out", node.reason or node.state, WARNING, NODES_HINT)
        for node in nodes
        if not node.usable
    ]


def left_out_notice(left_out: int) -> str:
    """Return the text of a notice to the user that `left_out` nodes are not used, since a run cannot use them now."""
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
    """Execute the command `argv` on `count` nodes of `compute` that are allocated for it, outside any run, with the
    environment `variables`, and return the stream of its output. If `names` are given, these nodes are used. `limit` is
    the expected run time in seconds. Nodes must see the paths `named` as this machine does. Raise UsageError if the
    compute cannot execute commands on its nodes."""
    hosts = dict(enumerate(names))
    command = NodeCommand(
        tuple(argv), tuple(range(count)), cwd, hosts=hosts, limit=limit, variables=variables, named=tuple(named)
    )
    return require_exec(compute).execute(None, command)


def require_exec(compute: Compute) -> CanExecute:
    if "exec" not in compute.capabilities:
        raise UsageError(f"compute {compute.name} cannot execute commands on its nodes")
    return cast(CanExecute, compute)
