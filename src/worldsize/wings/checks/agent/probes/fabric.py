"""Probe for the node's InfiniBand, RoCE and Omni-Path ports, the requirements of GPUDirect RDMA, and the machine's
size.

The values are read from the kernel's files. The stage `bandwidth` measures whether a run uses the ports and how fast
they are.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence

from worldsize.agent.machine.fabric_ports import ACTIVE, LINK_UP, FabricPort, read_ports
from worldsize.agent.machine.node_files import names_in, text_of
from worldsize.common.azure_sizes import AzureSize, azure_size
from worldsize.state.check_rows import OK, WARNING, CheckRow
from worldsize.wings.checks.agent.fabric_need import needs_fabric
from worldsize.wings.checks.agent.gpu.drivers import driver_models
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_number
from worldsize.wings.checks.agent.readers.row_texts import join_texts

_WHY = {
    "INIT": "the subnet manager has not configured it",
    "ARMED": "the subnet manager has not activated it",
}
_NICS = {"InfiniBand": "InfiniBand", "Ethernet": "RoCE", "OmniPath": "Omni-Path", "Unspecified": "EFA"}
_PEER_MODULES = ("nvidia_peermem", "nv_peer_mem")
_KERNEL_OF_DMABUF = (5, 12)


def probe(context: NodeContext) -> ProbeResult:
    """Return those of the node check's rows fabric.ports, fabric.gpudirect and fabric.azure_size that apply to the
    node, and the fact `fabric`, the list of its InfiniBand, RoCE and Omni-Path ports."""
    ports = read_ports(context.root)
    rows = (_ports_row(context, ports), _gpudirect_row(context, ports), _azure_row(context, ports))
    return ProbeResult(tuple(row for row in rows if row is not None), {"fabric": [port.fact() for port in ports]})


def _ports_row(context: NodeContext, ports: Sequence[FabricPort]) -> CheckRow | None:
    """Return the row fabric.ports about the node's InfiniBand, RoCE and Omni-Path ports. It is a warning if ports with
    a cable are not active, or if programs cannot open the active ones. None if no port is active and there is no
    warning."""
    what = "ports of the fabric"
    waiting = [port for port in ports if port.physical == LINK_UP and port.state in _WHY]
    if waiting and needs_fabric(context):
        first = waiting[0]
        value = join_texts([f"{port.name}: {port.state}" for port in waiting], 8, ", ")
        return context.row("fabric.ports", what, value, WARNING, f"{first.name}: {_WHY[first.state]}")
    active = [port for port in ports if port.state == ACTIVE]
    if not active:
        return None
    if needs_fabric(context) and _are_closed(context, active):
        hint = "start the container with --device=/dev/infiniband, or load the module ib_uverbs"
        value = f"{_ports_text(active)}, but /dev/infiniband cannot be opened"
        return context.row("fabric.ports", what, value, WARNING, hint)
    return context.row("fabric.ports", what, _ports_text(active), OK)


def _are_closed(context: NodeContext, active: Sequence[FabricPort]) -> bool:
    """Return whether this user can open none of the node's InfiniBand device files (/dev/infiniband/uverbs*). Return
    False if none of the `active` ports is InfiniBand: Omni-Path has its own device files, and Ethernet ports may belong
    to an ordinary network."""
    if all(port.layer != "InfiniBand" for port in active):
        return False
    at = context.path("dev", "infiniband")
    files = [os.path.join(at, name) for name in names_in(at) if name.startswith("uverbs")]
    return not any(os.access(file, os.R_OK | os.W_OK) for file in files)


def _ports_text(ports: Sequence[FabricPort]) -> str:
    """Return the number of ports of each kind as text: "8 × InfiniBand 400 Gb/s"."""
    counts = Counter(f"{_NICS.get(port.layer, port.layer or 'port')} {port.rate_gbps:g} Gb/s" for port in ports)
    return ", ".join(f"{count} × {kind}" for kind, count in counts.items())


def _gpudirect_row(context: NodeContext, ports: Sequence[FabricPort]) -> CheckRow | None:
    """Return the row fabric.gpudirect, which reports whether the NICs can read the GPUs' memory, through a kernel
    module or through dma-buf of the open kernel modules. None if the job does not use fast ports and GPUs together, or
    if the GPUs do not support it, like consumer GPUs."""
    models = driver_models(context)
    is_known = bool(models) and not any("GeForce" in model or "TITAN" in model or not model for model in models)
    if not needs_fabric(context) or not is_known or context.asked.get("gpus") == 0 or not any(map(_is_fast, ports)):
        return None
    what = "GPUDirect RDMA"
    loaded = [name for name in _PEER_MODULES if os.path.isdir(context.path("sys", "module", name))]
    if loaded:
        return context.row("fabric.gpudirect", what, f"{loaded[0]} is loaded", OK)
    if _has_dmabuf(context):
        return context.row("fabric.gpudirect", what, "by dma-buf", OK)
    hint = "data goes through the host's memory, and is slower: load nvidia-peermem"
    return context.row("fabric.gpudirect", what, "no nvidia-peermem, no dma-buf", WARNING, hint)


def _is_fast(port: FabricPort) -> bool:
    """Return whether the port is active and meant for data between GPUs: InfiniBand, or RoCE of at least 100 Gb/s.
    Slower RoCE ports often belong to the network through which users log in."""
    is_fast = port.layer == "InfiniBand" or (port.layer == "Ethernet" and port.rate_gbps >= 100)
    return is_fast and port.state == ACTIVE


def _has_dmabuf(context: NodeContext) -> bool:
    """Return whether the node has NVIDIA's open kernel modules on Linux 5.12 or later. NCCL requires the same (its
    dmaBufSupport)."""
    kernel = re.match(r"(\d{1,4})\.(\d{1,4})", text_of(context.path("proc", "sys", "kernel", "osrelease")))
    is_new = kernel is not None and (int(kernel[1]), int(kernel[2])) >= _KERNEL_OF_DMABUF
    return is_new and "Open Kernel Module" in text_of(context.path("proc", "driver", "nvidia", "version"))


def _azure_row(context: NodeContext, ports: Sequence[FabricPort]) -> CheckRow | None:
    name, size = context.asked.get("vm_size"), azure_size(context.asked.get("vm_size"))
    if size is None:
        return None
    value, hint = _azure_problem(context, size, ports)
    if hint:
        return context.row("fabric.azure_size", "the machine's size", f"{name}: {value}", WARNING, hint)
    return context.row("fabric.azure_size", "the machine's size", f"{name}: {_size_text(size)}", OK)


def _azure_problem(context: NodeContext, size: AzureSize, ports: Sequence[FabricPort]) -> tuple[str, str]:
    """Return a pair of texts: the difference between the node and what its Azure machine size provides (RDMA,
    InfiniBand ports, GPUs), and a hint how to fix it. Both are empty if there is no difference."""
    seen = len(driver_models(context))  # in a container: only the GPUs that were passed to it
    if context.nodes > 1 and not size.ports:
        return "no RDMA", "its nodes exchange gradients by TCP: choose a size with an r after its cores (ND96isr…)"
    if context.nodes > 1 and not any(port.layer == "InfiniBand" for port in ports):
        return (
            "no InfiniBand port",
            "this machine size has it: use an image with its driver (Ubuntu-HPC), or mount /dev/infiniband",
        )
    if seen and seen < size.gpus <= (asked_number(context.asked, "gpus") or 0):
        return f"{seen} of {size.gpus} GPUs", "the machine has lost GPUs: have it redeployed"
    return "", ""


def _size_text(size: AzureSize) -> str:
    gpus = [f"{size.gpus} × {size.gpu}"] if size.gpus else []
    ports = [f"{size.ports} × InfiniBand {size.gbps} Gb/s"] if size.ports else ["no RDMA"]
    return ", ".join([*gpus, f"{size.memory_gib} GiB", *ports])
