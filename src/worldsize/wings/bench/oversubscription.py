"""Detection of ranks that share cores or GPUs which each of them treats as its own. A benchmark then measures the
sharing, and not the scaling."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.cli.console import count_text
from worldsize.state.node_facts import NodeFacts


def find_oversubscription(nodes: Sequence[NodeFacts], ranks_per_node: int, threads: int | None) -> str:
    """Return a sentence if the ranks of a machine, `ranks_per_node` on each of its `nodes` with `threads` threads each
    (None: one), have more threads than the machine has cores, or if there are more ranks than GPUs; "" otherwise, and
    if the numbers are not known.

    Nodes of one machine share its cores and its GPUs: none has any for itself. If there are several such machines, the
    first one is reported.
    """
    for machine in _machines(nodes):
        found = _gpu_sentence(machine, ranks_per_node) or _core_sentence(machine, ranks_per_node, threads or 1)
        if found:
            return found
    return ""


def _machines(nodes: Sequence[NodeFacts]) -> list[list[NodeFacts]]:
    """Return the nodes grouped by machine, a list for each. A node whose machine is not known counts as a machine of
    its own."""
    found: dict[str, list[NodeFacts]] = {}
    for node in nodes:
        found.setdefault(node.machine or f"node {node.node_rank}", []).append(node)
    return list(found.values())


def _gpu_sentence(machine: Sequence[NodeFacts], ranks_per_node: int) -> str:
    ranks, gpus = ranks_per_node * len(machine), max(node.gpus for node in machine)
    if not 0 < gpus < ranks:
        return ""
    return f"oversubscribed: {count_text(ranks, 'rank')} on {count_text(gpus, 'GPU')}{_place(machine)}"


def _core_sentence(machine: Sequence[NodeFacts], ranks_per_node: int, threads: int) -> str:
    ranks, cores = ranks_per_node * len(machine), max(node.cores for node in machine)
    if not 0 < cores < ranks * threads:
        return ""
    each = f"{count_text(ranks, 'rank')} × {count_text(threads, 'thread')}"
    return f"oversubscribed: {each} on {count_text(cores, 'core')}{_place(machine)}"


def _place(machine: Sequence[NodeFacts]) -> str:
    host = f" of {machine[0].host}" if machine[0].host else ""
    return f"{host} ({len(machine)} virtual nodes)" if len(machine) > 1 else host
