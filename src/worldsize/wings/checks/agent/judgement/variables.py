"""Check that the variables of NCCL, and of the other libraries that ranks communicate with, are the same on all nodes.

NCCL's ranks hang, or compute something else, if they disagree on the algorithm, the protocol or the network. Those
differences are bad. NCCL itself compares its variables from 2.31 on (NCCL_RUN_RAS_DIAGNOSTICS); this check does so for
all releases.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.groups import (
    NOT_SET,
    Difference,
    Finding,
    difference_of,
    finding_rows,
    has_active_port,
    holders_text,
    mapping_of,
    value_text,
)

ID = "same.variables"

_WHAT = "the same NCCL_* and other variables"

OF_ONE_NODE = frozenset(
    (
        "NCCL_HOSTID",
        "NCCL_DEBUG_FILE",
        "NCCL_TOPO_DUMP_FILE",
        "NCCL_GRAPH_DUMP_FILE",
        "NCCL_RAS_ADDR",
        "NCCL_CONF_FILE",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
    )
)
"""Variables that must differ, or whose differences do no harm: names of hosts and of files to write."""

_OF_DEVICES = frozenset(
    ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "NCCL_IB_HCA", "UCX_NET_DEVICES", "NCCL_TOPO_FILE")
)
"""Variables that name a node's own devices. Nodes may have different names for them, so only whether each node has the
variable counts."""

_DISAGREEMENTS = frozenset(("NCCL_ALGO", "NCCL_PROTO"))
"""The variables by which NCCL's ranks disagree, even if a node does not set them."""

_NET, _IB_DISABLE = "NCCL_NET", "NCCL_IB_DISABLE"

_BAD_HINT = "NCCL hangs where ranks disagree: give it one value in the job's environment variables"
_HINT = "give it one value in the job's environment variables, or remove it from the node's own environment"


def variable_rows(nodes: Sequence[CheckedNode], asked: Mapping[str, Any]) -> list[CheckRow]:
    """Return the rows same.variables of the node check: one for each node whose NCCL and similar variables differ from
    most, or are not known while others' are; otherwise one for all. Empty for a single node, and if no variables are
    known."""
    known = {node.node_rank: _variables(node) for node in nodes if "nccl_variables" in node.facts}
    if len(nodes) < 2 or not known:
        return []
    rows = finding_rows(nodes, ID, _WHAT, _different(nodes, known, asked))
    rows += [_unknown(node) for node in nodes if node.node_rank not in known]
    return rows or [_same(nodes, known)]


def _variables(node: CheckedNode) -> dict[str, str]:
    """Return the node's variables of NCCL and other communication libraries, by name, without those that belong to one
    node."""
    said = {**mapping_of(node.facts.get("variables")), **mapping_of(node.facts.get("nccl_variables"))}
    return {name: str(value) for name, value in said.items() if name not in OF_ONE_NODE}


def _same(nodes: Sequence[CheckedNode], known: Mapping[int, Mapping[str, str]]) -> CheckRow:
    count = len(next(iter(known.values())))
    return CheckRow("", ID, _WHAT, f"{len(nodes)} nodes, {count} variables", OK)


def _unknown(node: CheckedNode) -> CheckRow:
    return CheckRow(node.label, ID, _WHAT, "unknown", UNKNOWN, "other nodes reported it: this one was late")


def _different(
    nodes: Sequence[CheckedNode], known: Mapping[int, Mapping[str, str]], asked: Mapping[str, Any]
) -> Iterator[tuple[int, Finding]]:
    by_rank = {node.node_rank: node for node in nodes}
    has_fabric = any(map(has_active_port, nodes))
    for name in sorted({name for variables in known.values() for name in variables}):
        values = {rank: _comparable_text(name, said) for rank, said in known.items()}
        difference = difference_of(values) if name not in _OF_DEVICES or not all(values.values()) else None
        for rank, value in difference.others.items() if difference else ():
            assert difference is not None
            text = _text(by_rank, rank, name, difference)
            bad = _may_use_nccl(asked) and _is_bad(name, value, difference.usual, has_fabric)
            yield rank, Finding(BAD, text, _BAD_HINT) if bad else Finding(WARNING, text, _HINT)


def _comparable_text(name: str, variables: Mapping[str, str]) -> str:
    """Return the value of the variable `name` of a node as NCCL interprets it: upper and lower case are equal in some
    variables, and 0 is the default of NCCL_IB_DISABLE. "" if it is not set."""
    value = variables.get(name, NOT_SET)
    if name == _IB_DISABLE and value == "0":
        return NOT_SET
    return value.upper() if name in _DISAGREEMENTS or name == _NET else value


def _text(by_rank: Mapping[int, CheckedNode], rank: int, name: str, difference: Difference) -> str:
    own, usual = difference.others[rank], difference.usual
    source = mapping_of(by_rank[rank].facts.get("nccl_files")).get(name)
    where = f" (of {value_text(source)})" if source and own else ""
    said = f"{name}={value_text(own)}{where}" if own else f"{name} is not set"
    return f"{said}, {holders_text(by_rank, difference.usual_nodes)} {value_text(usual) if usual else 'none'}"


def _may_use_nccl(asked: Mapping[str, Any]) -> bool:
    return (
        asked.get("gpus") != 0
        and asked.get("backend") in (None, "nccl")
        and asked.get("framework") not in ("mpi", "none", "tensorflow")
    )


def _is_bad(name: str, value: str, usual: str, has_fabric: bool) -> bool:
    if name == _NET:
        return NOT_SET not in (value, usual)  # if not set, NCCL chooses, perhaps the same
    return name in _DISAGREEMENTS or (name == _IB_DISABLE and has_fabric)
