"""Check that the nodes' names lead to the nodes, on each of them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.groups import Finding, finding_rows
from worldsize.wings.checks.agent.judgement.reach_answers import NameResult, ReachAnswer
from worldsize.wings.checks.agent.readers.row_texts import join_texts

ID = "network.names"

_WHAT = "the nodes' names"

_USE_NAMES = frozenset(("mpirun", "srun", "deepspeed", "mpi", "horovod"))
"""The launchers and frameworks that use the names of nodes."""

_LOOPBACK = ("127.", "::1")

_WRONG_HINT = "correct the line in /etc/hosts of {node}, or its name server: `getent ahosts {name}`"
_MISSING_HINT = "let /etc/hosts or the name server of each node know all nodes; MPI, DeepSpeed and Horovod use names"
_LOOPBACK_HINT = "gloo listens at the address of the node's own name: set GLOO_SOCKET_IFNAME to {interface}"


def name_rows(
    nodes: Sequence[CheckedNode], answers: Mapping[int, ReachAnswer | None], asked: Mapping[str, Any]
) -> list[CheckRow]:
    """Return the rows network.names of the node check: one for each node on which the name of a node is wrong, missing
    or not known, or whose own name leads to its loopback; otherwise one for all nodes. Empty if no node answered, which
    the row of the ports reports."""
    answered = {rank: answer for rank, answer in answers.items() if answer is not None}
    if not answered:
        return []
    if _no_name_resolves(answered):
        verdict = BAD if _uses_names(asked) else WARNING
        return [CheckRow("", ID, _WHAT, "no node resolves the name of another", verdict, _MISSING_HINT)]
    by_rank = {node.node_rank: node for node in nodes}
    findings = [
        (node.node_rank, finding)
        for node in nodes
        if node.node_rank in answered
        for finders in (_findings_of_others, _findings_of_own)
        for finding in finders(node, answered[node.node_rank], by_rank, asked)
    ]
    count = sum(len(answer.names) for answer in answered.values())
    return finding_rows(nodes, ID, _WHAT, findings) or [
        CheckRow("", ID, _WHAT, f"{len(answered)} nodes, {count} names looked up", OK)
    ]


def _uses_names(asked: Mapping[str, Any]) -> bool:
    return any(isinstance(asked.get(key), str) and asked[key] in _USE_NAMES for key in ("launcher", "framework"))


def _no_name_resolves(answered: Mapping[int, ReachAnswer]) -> bool:
    """Return whether more than two nodes looked up the names of others and found none at all, so that the site has no
    names."""
    names = [name for answer in answered.values() for name in answer.names]
    return len(answered) > 2 and bool(names) and all(not name.addresses and name.error for name in names)


def _findings_of_others(
    node: CheckedNode, answer: ReachAnswer, by_rank: Mapping[int, CheckedNode], asked: Mapping[str, Any]
) -> Iterator[Finding]:
    for name in answer.names:
        other = by_rank.get(name.rank)
        if other is None:
            continue
        if name.error:
            verdict = BAD if _uses_names(asked) and "no answer" not in name.error else WARNING
            yield Finding(verdict, f"{other.host}: {name.error}", _MISSING_HINT)
        elif name.reached is False:
            hint = _WRONG_HINT.format(node=node.label, name=other.host)
            yield Finding(BAD, f"{other.host} resolves to {_addresses(name)}, and is {other.address}", hint)
        elif name.reached is None:
            words = f"{other.host} resolves to {_addresses(name)}, which may be {other.address}"
            yield Finding(UNKNOWN, words, f"{other.label} answered at neither address")


def _addresses(name: NameResult) -> str:
    return join_texts(name.addresses, 2, " and ")


def _findings_of_own(
    node: CheckedNode, answer: ReachAnswer, by_rank: Mapping[int, CheckedNode], asked: Mapping[str, Any]
) -> Iterator[Finding]:
    """Yield the findings on the node's own name, as the node resolves it, if the job may use gloo. PyTorch makes gloo
    listen at the first address of that name, and on the loopback if there is none: see `createDefaultDevice` in
    ProcessGroupGloo.cpp."""
    own = answer.own
    if own is None or not _may_use_gloo(asked) or answer.ifnames.get("GLOO_SOCKET_IFNAME"):
        return
    interface = answer.interface.name if answer.interface else "the interface to the other nodes"
    hint = _LOOPBACK_HINT.format(interface=interface)
    if own.error and "no answer" not in own.error:
        yield Finding(WARNING, f"its own name {node.host}: {own.error}", hint)
    elif own.addresses and own.addresses[0].startswith(_LOOPBACK) and not _share_a_machine(by_rank.values()):
        yield Finding(WARNING, f"its own name {node.host} resolves to {own.addresses[0]}", hint)


def _may_use_gloo(asked: Mapping[str, Any]) -> bool:
    """Return whether the job may use gloo, according to its requests `asked`. A job with GPUs that does not name its
    back end most likely uses NCCL."""
    backends = ("gloo",) if asked.get("gpus") else (None, "gloo")
    return asked.get("backend") in backends and asked.get("framework") in (None, "pytorch", "deepspeed")


def _share_a_machine(nodes: Iterable[CheckedNode]) -> bool:
    """Return whether all nodes of the check have the same address. The loopback then leads to each of them."""
    return len({node.address for node in nodes}) == 1
