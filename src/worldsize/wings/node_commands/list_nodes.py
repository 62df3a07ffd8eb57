"""The command `worldsize nodes`, which shows the nodes of a compute and their free resources."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from worldsize.cli.console import add_output_option, complete_computes, load_current_config, set_completer
from worldsize.cli.output import report, show, show_json
from worldsize.cli.table import table
from worldsize.compute.capabilities import ComputeNode
from worldsize.plan.hostlist import fold_hostlist

_EXAMPLES = """examples:
  worldsize nodes                             equal nodes in one row
  worldsize nodes --compute lab --all         a row for each, with the reason why one is down
  worldsize nodes -o json                     each node; memory in MiB"""
_HEADERS = ["NODES", "STATE", "GPUS", "CPUS", "MEMORY"]


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    compute = parser.add_argument("--compute", metavar="NAME", help="the compute (default: as configured)")
    set_completer(compute, complete_computes)
    parser.add_argument("-a", "--all", action="store_true", help="one row for each node, with the reason it is down")
    add_output_option(parser)
    parser.set_defaults(act=show_nodes)


def show_nodes(options: argparse.Namespace) -> int:
    from worldsize.service.compute_nodes import require_node_listing
    from worldsize.service.computes import choose_compute, open_compute

    config = load_current_config()
    compute = require_node_listing(open_compute(config, choose_compute(config, options.compute, None), os.environ))
    nodes = compute.nodes()
    if options.output == "json":
        show_json([node._asdict() for node in nodes])
        return 0
    rows = (
        [[*_row([node]), node.reason] for node in nodes]
        if options.all
        else [_row(each) for each in group_equal_nodes(nodes)]
    )
    headers = [*_HEADERS, compute.group_noun.upper()]
    if options.all and any(node.reason for node in nodes):
        headers.append("REASON")
    show(*table([row[: len(headers)] for row in rows], headers))
    unusable = [node for node in nodes if not node.usable]
    if unusable and not options.all:
        several = "1 node starts" if len(unusable) == 1 else f"{len(unusable)} nodes start"
        report(f"{several} no runs: `worldsize nodes --all` gives the reason")
    return 0


def group_equal_nodes(nodes: Sequence[ComputeNode]) -> list[list[ComputeNode]]:
    """Return the nodes of a compute as lists of nodes with equal state, GPUs, CPUs and groups, in the order of the
    first node of each list."""
    found: dict[tuple[object, ...], list[ComputeNode]] = {}
    for node in nodes:
        key = (node.state, node.note, node.gpu_type, node.gpus, node.gpus_free, node.cpus, node.groups)
        found.setdefault(key, []).append(node)
    return list(found.values())


def _row(nodes: Sequence[ComputeNode]) -> list[str]:
    first = nodes[0]
    return [
        fold_hostlist(node.name for node in nodes),
        f"{first.state} ({first.note})" if first.note else first.state,
        _gpus_text(first),
        _free_text([(node.cpus, node.cpus_free) for node in nodes]),
        _free_text([(_gib(node.memory), _gib(node.memory_free)) for node in nodes], " GiB"),
        ",".join(name + "*" if name in first.default_groups else name for name in first.groups),
    ]


def _gpus_text(node: ComputeNode) -> str:
    if not node.gpus:
        return "" if node.gpus is None else "none"
    text = "{} × {}".format(node.gpus, node.gpu_type or "GPU")
    return text if node.gpus_free is None else f"{node.gpus_free} free of {text}"


def _free_text(numbers: Sequence[tuple[float | None, float | None]], unit: str = "") -> str:
    """Return as text how much of a resource (CPUs or memory) the nodes have, and how much of it is free, such as "2-8
    free of 8", as far as the compute reports it. `numbers` are pairs of the total and the free amount."""
    columns = zip(*numbers, strict=True)
    total, left = (_range_text([number for number in column if number is not None]) for column in columns)
    if not total:
        return ""
    return f"{left} free of {total}{unit}" if left else total + unit


def _gib(mebibytes: int | None) -> float | None:
    return None if mebibytes is None else round(mebibytes / 1024, 1)


def _range_text(numbers: Sequence[float]) -> str:
    """Return the range of the numbers as text: "8" if they are equal, "2-8" if they differ; "" for none."""
    if not numbers:
        return ""
    least, most = min(numbers), max(numbers)
    return f"{least:g}" if least == most else f"{least:g}-{most:g}"
