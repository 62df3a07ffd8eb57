"""What a node is made of, by the kernel's files alone.

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
"""A limit above this share of the machine's memory is none that anybody would notice."""


def hardware_rows(root: str = "/", gpus: Rows = (), with_cores: bool = True) -> Rows:
    """Return the rows of a node's hardware, `gpus` among them at their place; what is not known is left out.
    `with_cores`: those that this process may use are its ranks'."""
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
    """What tells machines apart: the number that the kernel has drawn as it was booted, else the node's name."""
    return text_of(os.path.join(root, "proc/sys/kernel/random/boot_id"), 64) or host


def _memory_text(root: str) -> str:
    """ "187 GiB", or "64 GiB of 187 GiB" where a control group allows less than the machine has."""
    usable, machine = usable_memory(root), machine_memory(root)
    if usable is None:
        return ""
    return (
        f"{size_text(usable)} of {size_text(machine)}" if machine and usable < _NEARLY * machine else size_text(usable)
    )


def _kernel_text(root: str) -> str:
    """ "Linux 6.1.0-31-amd64 x86_64"."""
    release = text_of(os.path.join(root, "proc/sys/kernel/osrelease"), 256)
    return f"Linux {release} {os.uname().machine}" if release else ""
