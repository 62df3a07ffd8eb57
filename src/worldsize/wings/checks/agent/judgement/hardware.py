"""Check that the nodes have the same hardware: GPUs, ports of the fabric, cores, memory.

A training that waits for all its ranks is as fast as the slowest node, so a node with less is reported, and one with
more is not. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.groups import value_text
from worldsize.wings.checks.agent.judgement.numbers import positive_of

_MEMORY_SHARE = 0.95
"""The share of the usual memory that a node must have. Azure's and Meta's health checks permit differences of 3 to 5
%."""

_MOST_NODES = 8
_LAYERS = {"InfiniBand": "InfiniBand", "Ethernet": "RoCE", "OmniPath": "Omni-Path"}


def hardware_rows(nodes: Sequence[CheckedNode]) -> list[CheckRow]:
    """Return the rows same.gpus and same.hardware of the node check: one for all nodes if their hardware is the same,
    otherwise one for each node that has less. There is no row for facts that no node has reported."""
    return [*_gpu_rows(nodes), *_machine_rows(nodes)] if len(nodes) > 1 else []


def _gpu_rows(nodes: Sequence[CheckedNode]) -> list[CheckRow]:
    told = {node.label: gpus for node in nodes if (gpus := _gpus(node)) is not None}
    if not any(told.values()):
        return []
    rows = [
        CheckRow(
            node.label, "same.gpus", "GPUs of all nodes", "unknown", UNKNOWN, "the other nodes have reported theirs"
        )
        for node in nodes
        if node.label not in told
    ]
    kinds: dict[str, list[str]] = {}
    for label, gpus in told.items():
        kinds.setdefault(gpus, []).append(label)
    usual, labels = max(kinds.items(), key=lambda kind: len(kind[1]))
    if len(kinds) == 1:
        return [*rows, CheckRow("", "same.gpus", "GPUs of all nodes", f"{usual} on {len(labels)} nodes", OK)]
    return [*rows, *_odd_rows(kinds, usual, len(told))]


def _odd_rows(kinds: dict[str, list[str]], usual: str, count: int) -> list[CheckRow]:
    """Return a row of the node check for each node whose GPUs differ from those of more than half of the nodes. If
    there is no such majority, return one row for all. `kinds` are the labels of the nodes by their GPUs in words."""
    if len(kinds[usual]) * 2 <= count:
        words = [f"{_labels(labels)}: {gpus or 'none'}" for gpus, labels in sorted(kinds.items())]
        hint = "the slowest GPU sets the pace: ask for nodes of one kind"
        return [CheckRow("", "same.gpus", "GPUs of all nodes", "; ".join(words[:_MOST_NODES]), WARNING, hint)]
    hint = f"{len(kinds[usual])} of {count} nodes have {usual or 'none'}: ask for nodes of one kind"
    odd = [(label, gpus) for gpus, labels in kinds.items() if gpus != usual for label in labels]
    return [CheckRow(label, "same.gpus", "GPUs of all nodes", gpus or "none", WARNING, hint) for label, gpus in odd]


def _gpus(node: CheckedNode) -> str | None:
    """Return the GPUs that a node has reported as text, equal for equal ones: "8 × NVIDIA H100 80GB HBM3"; None if the
    node has not reported them."""
    gpus = node.facts.get("gpus")
    if not isinstance(gpus, (list, tuple)):
        return None
    models = [value_text(gpu.get("model") or "GPU") for gpu in gpus if isinstance(gpu, dict)]
    return ", ".join(f"{models.count(model)} × {model}" for model in sorted(set(models)))


def _machine_rows(nodes: Sequence[CheckedNode]) -> list[CheckRow]:
    less: dict[str, list[str]] = {node.label: [] for node in nodes}
    judged = [
        _name_fewer(nodes, less, _number("cores"), 1.0, lambda value: f"{value:g} cores"),
        _name_fewer(nodes, less, _number("memory_mib"), _MEMORY_SHARE, lambda value: f"{value / 1024:.0f} GiB"),
        *(_name_fewer(nodes, less, _rate(layer), 1.0, _rate_text(name)) for layer, name in _layers(nodes)),
    ]
    usual = [text for text in judged if text]
    if not usual:
        return []
    what, hint = "hardware of all nodes", f"others have {', '.join(usual)}: the slowest node sets the pace"
    rows = [
        CheckRow(label, "same.hardware", what, ", ".join(words), WARNING, hint)
        for label, words in less.items()
        if words
    ]
    return rows or [CheckRow("", "same.hardware", what, ", ".join(usual), OK)]


def _name_fewer(
    nodes: Sequence[CheckedNode],
    less: dict[str, list[str]],
    value_of: Callable[[CheckedNode], Any],
    share: float,
    text: Callable[[Any], str],
) -> str:
    """Compare one number of the nodes' hardware, which `value_of` returns for a node. Record in `less` its text for
    each node that is below `share` of the value that at least half of the nodes reach. Return that value as text; "" if
    no node has any."""
    told = {node.label: value for node in nodes if (value := value_of(node)) is not None}
    usual = sorted(told.values())[len(told) // 2] if told else 0
    if not usual:
        return ""
    for label, value in told.items():
        if value < usual * share:
            less[label].append(text(value))
    return text(usual)


def _number(name: str) -> Callable[[CheckedNode], Any]:
    return lambda node: positive_of(node.facts.get(name))


def _layers(nodes: Sequence[CheckedNode]) -> list[tuple[str, str]]:
    """Return the kinds of network ports that ranks of these nodes use, each as its name in the facts and its name for
    users. If there is InfiniBand or Omni-Path, Ethernet ports have other purposes, and some may have no cable."""
    fast = [(layer, name) for layer, name in _LAYERS.items() if layer != "Ethernet"]
    return fast if any(_rate(layer)(node) for layer, _ in fast for node in nodes) else list(_LAYERS.items())


def _rate(layer: str) -> Callable[[CheckedNode], Any]:
    """Return a function that returns the sum of the rates of a node's active ports of the link layer `layer`, in Gb/s;
    None if the node's ports are not known."""

    def value_of(node: CheckedNode) -> float | None:
        ports = node.facts.get("fabric")
        if not isinstance(ports, (list, tuple)):
            return None
        active = [port for port in ports if isinstance(port, dict) and port.get("state") == "ACTIVE"]
        return sum(positive_of(port.get("rate_gbps")) or 0.0 for port in active if port.get("layer") == layer)

    return value_of


def _rate_text(name: str) -> Callable[[Any], str]:
    return lambda value: f"{value:g} Gb/s of {name}" if value else f"no active port of {name}"


def _labels(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _MOST_NODES} more" if len(labels) > _MOST_NODES else ""
    return ", ".join(labels[:_MOST_NODES]) + more
