"""The processors of a machine, by name and number.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections import Counter

from worldsize.agent.machine.cores import Cores
from worldsize.agent.machine.node_files import names_in, text_of

_NAME_KEYS = ("model name", "cpu", "uarch")
"""The keys of the processor's name in /proc/cpuinfo: of x86 and some others, of POWER, of RISC-V."""

_ARM = {
    (0x41, 0xD03): "Arm Cortex-A53",
    (0x41, 0xD08): "Arm Cortex-A72",
    (0x41, 0xD0B): "Arm Cortex-A76",
    (0x41, 0xD0C): "Arm Neoverse N1",
    (0x41, 0xD40): "Arm Neoverse V1",
    (0x41, 0xD49): "Arm Neoverse N2",
    (0x41, 0xD4F): "Arm Neoverse V2",
    (0x41, 0xD84): "Arm Neoverse V3",
    (0x41, 0xD8E): "Arm Neoverse N3",
    (0x43, 0x0AF): "Cavium ThunderX2",
    (0x46, 0x001): "Fujitsu A64FX",
    (0x48, 0xD01): "HiSilicon Kunpeng 920",
    (0x4E, 0x004): "NVIDIA Carmel",
    (0xC0, 0xAC3): "Ampere-1",
    (0xC0, 0xAC4): "Ampere-1A",
}
"""The names of ARM cores by implementer and part, as in the register MIDR_EL1: Linux,
arch/arm64/include/asm/cputype.h."""

_HEAD = 1 << 14
"""The number of bytes of /proc/cpuinfo that hold the first processor."""

_MOST = 8192


def processor_text(root: str = "/") -> str:
    """Return a text on the machine's processors, such as "2 × Intel Xeon Gold 6148 CPU @ 2.40GHz, 20 cores each".
    Unknown parts are left out."""
    name, cores = _model(root), _cores_of_sockets(root)
    if not cores:
        return name
    sockets = f"{len(cores)} × " if len(cores) > 1 else ""
    each = " each" if len(cores) > 1 else ""
    counts = " + ".join(map(str, sorted(set(cores), reverse=True)))
    return f"{sockets}{name or 'unknown processor'}, {counts} core{'s' * (counts != '1')}{each}"


def cores_text(cores: Cores) -> str:
    """Return the number of usable cores: "32 of 64" of those that are online, or "64" if all may be used. Cores are
    counted as the scheduler counts them: two for a core with two threads."""
    usable = f"{cores.usable:.3g}" if cores.usable < 100 else f"{cores.usable:.0f}"
    return f"{usable} of {cores.online}" if cores.online > cores.usable else usable


def _model(root: str) -> str:
    text = text_of(os.path.join(root, "proc/cpuinfo"), _HEAD)
    for key in _NAME_KEYS:
        found = re.search(rf"(?m)^{key}\s*:\s*(\S.*?)\s*$", text)
        if found:
            return " ".join(re.sub(r"\((?:R|TM|r|tm)\)", " ", found[1]).split())[:200]
    return _arm_model(text)


def _arm_model(text: str) -> str:
    """Return the name of an ARM core from the text of /proc/cpuinfo, which states only numbers of implementer and part.
    Return the numbers if the name is not known; "" if there are none."""
    found = [re.search(rf"(?m)^CPU {key}\s*:\s*(0x[0-9a-fA-F]{{1,4}})\s*$", text) for key in ("implementer", "part")]
    if not found[0] or not found[1]:
        return ""
    maker, part = found[0][1], found[1][1]
    return _ARM.get((int(maker, 16), int(part, 16)), f"ARM, implementer {maker}, part {part}")


def _cores_of_sockets(root: str) -> list[int]:
    """Return the number of cores of each processor socket of the machine. Empty if the kernel does not report it.
    Threads of one core count once."""
    at = os.path.join(root, "sys/devices/system/cpu")
    found = {_place(os.path.join(at, name, "topology")) for name in names_in(at)[:_MOST] if _is_processor(name)}
    return list(Counter(place[0] for place in found if all(place)).values())


def _is_processor(name: str) -> bool:
    return re.fullmatch(r"cpu\d{1,6}", name) is not None


def _place(topology: str) -> tuple[str, str]:
    """Return the socket of a logical processor, and the list of processors that are threads of the same core, which
    identifies the core. `topology` is the processor's directory in /sys."""
    socket = text_of(os.path.join(topology, "physical_package_id"), 64)
    threads = text_of(os.path.join(topology, "thread_siblings_list"), 4096)
    return socket, threads
