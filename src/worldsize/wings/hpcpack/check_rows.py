"""The rows of a check that show what the nodes of an HPC Pack cluster see and have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from worldsize.state.check_rows import BAD, OK, WARNING, CheckRow
from worldsize.wings.hpcpack.share_check import NodeCheck

NODES, VISIBLE, PYTHON = "hpcpack.nodes", "hpcpack.share.visible", "hpcpack.python"
GPUS, DRIVER, TORCH = "hpcpack.gpus", "hpcpack.driver", "hpcpack.torch"

_INSTALL_TORCH = "worldsize exec --all -- pip3 install torch torchvision torchaudio"
_INSTALL_DRIVER = (
    "install NVIDIA's driver there, or use a machine size and an image that have it; or correct gpus_per_node"
)


def node_rows(found: Sequence[NodeCheck], gpus_per_node: int | None, compute: str) -> list[CheckRow]:
    """Return the rows that `worldsize hpcpack check` shows for each node, and the row about GPUs that are not
    configured. `gpus_per_node` is the configured number of GPUs of the compute named `compute`; None if none is
    configured."""
    rows = [CheckRow(each.node, *row) for each in found for row in _rows(each, gpus_per_node, compute)]
    told = [each for each in found if each.python is not None]
    return [*rows, *(_unconfigured_gpus(told, compute) if gpus_per_node is None else ())]


_Row = tuple[str, str, str, str, str]
"""The row of one node: id, what, value, verdict, hint."""


def _rows(found: NodeCheck, gpus_per_node: int | None, compute: str) -> Iterator[_Row]:
    if found.lost:
        yield NODES, "a task", found.lost, BAD, ""
        return
    yield NODES, "a task", "executed", OK, ""
    if found.round_trip is None:
        yield VISIBLE, "the share", found.unshared, BAD, "mount it there: `worldsize hpcpack share` prints the script"
    else:
        yield VISIBLE, "the share", f"there and back in {found.round_trip:.2f} s", OK, ""
    if found.python is None:
        yield PYTHON, "Python", found.error, BAD, "install it there, or name another one: `python` of the compute"
        return
    yield PYTHON, "Python", found.python, OK, ""
    yield _gpus(found, gpus_per_node, compute)
    if found.driver:
        yield DRIVER, "the GPU driver", found.driver, OK, ""
    yield _torch(found)


def _gpus(found: NodeCheck, gpus_per_node: int | None, compute: str) -> _Row:
    """Return the row of the cluster check about one node's GPUs. It is bad if the node has fewer GPUs than are
    configured: a job gets nodes by their number, and some ranks would find no GPU. It is a warning if the node has
    more."""
    value, count = _gpus_text(found), found.gpu_count
    if gpus_per_node and count < gpus_per_node:
        return GPUS, "GPUs", f"{value}, and gpus_per_node is {gpus_per_node}", BAD, _INSTALL_DRIVER
    if gpus_per_node and count > gpus_per_node and not found.instances:
        hint = f"gpus_per_node = {count} in [compute.{compute}] uses all"
        return GPUS, "GPUs", f"{value}, and gpus_per_node is {gpus_per_node}", WARNING, hint
    return GPUS, "GPUs", value, OK, ""


def _gpus_text(found: NodeCheck) -> str:
    """Return the GPUs of a checked node in words, such as "2 × NVIDIA H100" or "none"."""
    counts = ", ".join(f"{found.gpus.count(name)} × {name}" for name in dict.fromkeys(found.gpus))
    if found.instances:
        return f"{counts} in {found.instances} parts"
    return counts or (f"{found.gpu_count}, according to torch" if found.gpu_count else "none")


def _torch(found: NodeCheck) -> _Row:
    """Return the row of the cluster check about the PyTorch of a node's Python. It is a warning at most: a job may have
    another torch in its environment."""
    torch = found.torch
    if not torch:
        return TORCH, "torch", "none", WARNING, f"{_INSTALL_TORCH}; or an environment that has it"
    cuda = f" (CUDA {torch['cuda']})" if torch.get("cuda") else ""
    if found.gpu_count and not torch.get("gpus"):
        hint = "it is a CPU build, or does not fit the driver"
        return TORCH, "torch", f"{torch.get('version')}{cuda} sees none of the GPUs", WARNING, hint
    return TORCH, "torch", f"{torch.get('version')}{cuda}", OK, ""


def _unconfigured_gpus(found: Sequence[NodeCheck], compute: str) -> list[CheckRow]:
    """Return a list with one row of the cluster check about GPUs that no job gets, because the compute does not
    configure the number of GPUs of a node; an empty list if no node has a GPU."""
    by_count: dict[int, list[str]] = {}
    for each in found:
        by_count.setdefault(each.gpu_count, []).append(each.node)
    if not any(by_count):
        return []
    if len(by_count) == 1:
        (count,) = by_count
        value, hint = f"not configured; every node has {count}", f"gpus_per_node = {count} in [compute.{compute}]"
    else:
        counts = "; ".join(f"{count} on {', '.join(nodes)}" for count, nodes in sorted(by_count.items(), reverse=True))
        value, hint = f"not configured; {counts}", "choose nodes that have as many by node_group or nodes"
    return [CheckRow("", GPUS, "gpus_per_node", value, WARNING, hint)]
