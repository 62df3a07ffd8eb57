"""What of a machine decides which packages fit: its platform, its C library, its GPU driver."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from worldsize.errors import UsageError

_PLATFORMS = {"x86_64": "64", "aarch64": "aarch64", "ppc64le": "ppc64le", "arm64": "arm64"}
_DRIVER = "/proc/driver/nvidia/version"
_VIRTUAL = re.compile(r"(__[a-z0-9_]+)(?:\s*=\s*([^\s=]+)(?:\s*=\s*([^\s=]+))?)?")


def platform() -> str:
    """conda's name for this machine's: linux-64."""
    system = os.uname()
    name = "osx" if system.sysname == "Darwin" else system.sysname.lower()
    return f"{name}-{_PLATFORMS.get(system.machine, system.machine)}"


def glibc_version() -> str | None:
    """This machine's version, such as "2.36"; None where it has another C library."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (OSError, ValueError):
        return None
    return version if name == "glibc" else None


def driver_version() -> str | None:
    """The version of the NVIDIA driver that is loaded, such as "550.54.15"; None without one."""
    try:
        with open(_DRIVER, encoding="ascii", errors="replace") as file:
            found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", file.readline())
    except OSError:
        return None
    return found[1] if found else None


def machine_versions() -> list[str]:
    """What stands for this machine's virtual packages where nobody named any: cheap, and enough to tell machines
    apart. The solver itself asks rattler."""
    found = {"glibc": glibc_version(), "driver": driver_version()}
    return ["{} {}".format(*item) for item in found.items() if item[1]]


def all_virtual_packages(said: Sequence[str]) -> list[tuple[str, str, str]]:
    """All virtual packages of nodes of which somebody named some: what every Linux has, this machine's processor, and
    its C library where nobody named one. No GPU driver, unless it was named."""
    kernel = re.match(r"\d+(?:\.\d+)*", os.uname().release)
    found = {
        "__unix": ("0", "0"),
        "__linux": (kernel[0] if kernel else "0", "0"),
        "__archspec": ("1", os.uname().machine),
        **({"__glibc": (glibc_version() or "0", "0")} if glibc_version() else {}),
    }
    for each in said:
        name, version, build = parse_virtual_package(each)
        found[name] = (version, build)
    return [(name, *rest) for name, rest in found.items()]


def parse_virtual_package(text: str) -> tuple[str, str, str]:
    """Name, version and build of "__cuda=12.4". UsageError for what is no virtual package."""
    found = _VIRTUAL.fullmatch(text.strip())
    if not found:
        raise UsageError(f"{text!r:.60} is no virtual package", "virtual_packages", "write __cuda=12.4 or __glibc=2.28")
    return found[1], found[2] or "0", found[3] or "0"
