"""Whether ranks share what each of them takes for its own: then a benchmark tells of the sharing, and of no scaling."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.cli.console import count_text
from worldsize.state.node_facts import NodeFacts


def find_oversubscription(nodes: Sequence[NodeFacts], ranks_per_node: int, threads: int | None) -> str:
    """Return a sentence where the ranks of a machine, with `threads` each (None: one), have more threads than it has
    cores, or where they are more than its GPUs; "" otherwise, and of what is not known.

    Nodes of one machine share its cores and its GPUs: none has any for itself. Of several such machines the first is
    told.
    """
    for machine in _machines(nodes):
        found = _gpu_sentence(machine, ranks_per_node) or _core_sentence(machine, ranks_per_node, threads or 1)
        if found:
            return found
    return ""


def _machines(nodes: Sequence[NodeFacts]) -> list[list[NodeFacts]]:
    """Return the nodes of each machine; one whose machine is not known is a machine of its own."""
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
