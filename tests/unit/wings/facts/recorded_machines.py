"""Trees of /proc, /sys, /dev and /etc, as machines of several kinds have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

X86 = """\
processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz
cpu MHz\t\t: 1000.000
"""
ARM = """\
processor\t: 0
BogoMIPS\t: 2000.00
CPU implementer\t: %s
CPU architecture: 8
CPU part\t: %s
"""
POWER = "processor\t: 0\ncpu\t\t: POWER9, altivec supported\nclock\t\t: 3800.000000MHz\n"

INFORMATION = """\
Model: \t\t %s
IRQ:   \t\t 38
GPU UUID: \t %s
Video BIOS: \t 88.00.4f.00.09
Bus Type: \t PCIe
"""
NVIDIA_VERSION = """\
NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023
GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)
"""
NVIDIA_OPEN_VERSION = """\
NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.02  Release Build  (dvs-builder@U16)  Mon May 13
"""


def put(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def put_cores(root: Path, sockets: int, cores: int, threads: int = 1) -> None:
    """So many sockets with so many cores each; Intel numbers the second threads after all cores."""
    total = sockets * cores
    for number in range(total * threads):
        core = number % total
        at = "sys/devices/system/cpu/cpu%d/topology/" % number
        siblings = ",".join(str(core + total * thread) for thread in range(threads))
        put(root, {at + "physical_package_id": "%d\n" % (core // cores), at + "thread_siblings_list": siblings + "\n"})
    put(root, {"sys/devices/system/cpu/online": "0-%d\n" % (total * threads - 1)})


def put_interface(
    root: Path, name: str, speed: str = "25000", state: str = "up", kind: str = "1", real: bool = True
) -> None:
    at = "sys/class/net/%s/" % name
    put(root, {at + "speed": speed + "\n", at + "operstate": state + "\n", at + "type": kind + "\n"})
    if real:
        put(root, {at + "device/vendor": "0x15b3\n"})


def put_port(
    root: Path,
    device: str,
    layer: str = "InfiniBand",
    rate: str = "100 Gb/sec (4X EDR)",
    state: str = "4: ACTIVE",
    netdev: str = "",
) -> None:
    at = "sys/class/infiniband/%s/ports/1/" % device
    put(root, {at + "state": state + "\n", at + "phys_state": "5: LinkUp\n"})
    put(root, {at + "rate": rate + "\n", at + "link_layer": layer + "\n"})
    if netdev:
        put(root, {at + "gid_attrs/ndevs/0": netdev + "\n"})


def put_nvidia(root: Path, *models: str) -> None:
    for number, model in enumerate(models):
        at = "proc/driver/nvidia/gpus/0000:%02x:00.0/information" % (number + 10)
        put(root, {at: INFORMATION % (model, "GPU-%d" % number), "dev/nvidia%d" % number: ""})
    put(root, {"proc/driver/nvidia/version": NVIDIA_VERSION})
