"""The hardware of a node, read from the kernel's files alone.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.agent.machine.cores import read_cores
from worldsize.agent.machine.node_files import text_of
from worldsize.agent.machine.node_resources import machine_memory, usable_memory
from worldsize.common.numbers import size_text
from worldsize.state.node_facts import Rows
from worldsize.wings.facts.agent.networks import network_text
from worldsize.wings.facts.agent.processors import cores_text, processor_text

_NEARLY = 0.98
"""The share of the machine's memory above which a limit is not worth mentioning."""


def hardware_rows(root: str = "/", gpus: Rows = (), with_cores: bool = True) -> Rows:
    """Return the rows (name, text) of a node's hardware: CPU, cores, memory, the rows `gpus`, kernel and network.
    Unknown values are left out. `with_cores` includes the cores that this process may use, which are those of its
    ranks."""
    rows = (
        ("CPU", processor_text(root)),
        ("cores", cores_text(read_cores(root)) if with_cores else ""),
        ("memory", _memory_text(root)),
        *gpus,
        ("kernel", _kernel_text(root)),
        ("network", network_text(root)),
    )
    return tuple((name, text) for name, text in rows if text)


def machine_of(root: str, host: str) -> str:
    """Return a text that identifies the machine: the random number that the kernel has drawn at boot, else the node's
    name."""
    return text_of(os.path.join(root, "proc/sys/kernel/random/boot_id"), 64) or host


def _memory_text(root: str) -> str:
    """Return the usable memory, such as "187 GiB", or "64 GiB of 187 GiB" if a control group allows less than the
    machine has; "" if unknown."""
    usable, machine = usable_memory(root), machine_memory(root)
    if usable is None:
        return ""
    return (
        f"{size_text(usable)} of {size_text(machine)}" if machine and usable < _NEARLY * machine else size_text(usable)
    )


def _kernel_text(root: str) -> str:
    """Return the name of the kernel, such as "Linux 6.1.0-31-amd64 x86_64"; "" if unknown."""
    release = text_of(os.path.join(root, "proc/sys/kernel/osrelease"), 256)
    return f"Linux {release} {os.uname().machine}" if release else ""
