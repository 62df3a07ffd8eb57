"""nvidia-smi of a rehearsal: a program that answers for the virtual GPUs. Imports nothing of ours.

The table, -L, --query-gpu=… --format=csv[,noheader][,nounits], --query-compute-apps, -i, --help-query-gpu. As the real
one, it shows the node's GPUs whatever CUDA_VISIBLE_DEVICES says.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, List, Sequence, Tuple

NAME = "Virtual GPU (worldsize rehearsal)"
DRIVER = "570.00"
CUDA = "12.8"
MEMORY_MIB = 81920


def _uuid(index: int) -> str:
    return f"GPU-{index:08d}-0000-0000-0000-000000000000"


FIELDS: Dict[str, Tuple[str, Callable[[int], object]]] = {
    "index": ("", lambda index: index),
    "name": ("", lambda index: NAME),
    "gpu_name": ("", lambda index: NAME),
    "count": ("", lambda index: _count()),
    "uuid": ("", _uuid),
    "gpu_uuid": ("", _uuid),
    "serial": ("", lambda index: "[N/A]"),
    "driver_version": ("", lambda index: DRIVER),
    "compute_cap": ("", lambda index: "8.0"),
    "compute_mode": ("", lambda index: "Default"),
    "pstate": ("", lambda index: "P0"),
    "persistence_mode": ("", lambda index: "Enabled"),
    "mig.mode.current": ("", lambda index: "Disabled"),
    "pci.bus_id": ("", lambda index: f"00000000:{index + 1:02X}:00.0"),
    "gpu_bus_id": ("", lambda index: f"00000000:{index + 1:02X}:00.0"),
    "timestamp": ("", lambda index: time.strftime("%Y/%m/%d %H:%M:%S.000")),
    "memory.total": ("MiB", lambda index: MEMORY_MIB),
    "memory.used": ("MiB", lambda index: 0),
    "memory.free": ("MiB", lambda index: MEMORY_MIB),
    "memory.reserved": ("MiB", lambda index: 0),
    "utilization.gpu": ("%", lambda index: 0),
    "utilization.memory": ("%", lambda index: 0),
    "temperature.gpu": ("", lambda index: 30),
    "power.draw": ("W", lambda index: "60.00"),
    "power.limit": ("W", lambda index: "400.00"),
    "clocks.sm": ("MHz", lambda index: 1410),
    "clocks.gr": ("MHz", lambda index: 1410),
    "clocks.mem": ("MHz", lambda index: 1593),
    "clocks.max.sm": ("MHz", lambda index: 1410),
}
"""What can be asked for: its unit, and its value for a GPU."""


class Mistake(Exception):
    """What the program says before it exits with 2."""


def _count() -> int:
    return int(os.environ.get("WORLDSIZE_VIRTUAL_GPUS") or 0)


def main(words: Sequence[str]) -> int:
    try:
        sys.stdout.write(_answer(words))
    except Mistake as mistake:
        sys.stdout.write(f"{mistake}\n")
        return 2
    return 0


def _answer(words: Sequence[str]) -> str:
    options = _parse_options(words)
    if "-h" in options or "--help" in options:
        return (__doc__ or "nvidia-smi of a rehearsal") + "\n"
    if "--help-query-gpu" in options:
        return "".join(f'"{name}"\n' for name in FIELDS)
    gpus = _choose_gpus(options.get("-i") or options.get("--id") or "")
    if "-L" in options or "--list-gpus" in options:
        return "".join(f"GPU {index}: {NAME} (UUID: {_uuid(index)})\n" for index in gpus)
    if "--query-gpu" in options:
        return _query_text(options["--query-gpu"], options.get("--format", ""), gpus)
    if "--query-compute-apps" in options:
        return "" if "noheader" in options.get("--format", "") else options["--query-compute-apps"] + "\n"
    return _table(gpus)


_WITH_VALUE = ("-i", "--id", "--query-gpu", "--query-compute-apps", "--format")
_WITHOUT_VALUE = ("-L", "--list-gpus", "-h", "--help", "--help-query-gpu")


def _parse_options(words: Sequence[str]) -> Dict[str, str]:
    found: Dict[str, str] = {}
    rest = list(words)
    while rest:
        name, sign, value = rest.pop(0).partition("=")
        if name in _WITH_VALUE:
            if not sign and not rest:
                raise Mistake(f'Option "{name}" needs a value')
            found[name] = value if sign else rest.pop(0)
        elif name in _WITHOUT_VALUE:
            found[name] = ""
        else:
            raise Mistake(f"nvidia-smi of a rehearsal does not know {name} (docs/rehearsal.md)")
    return found


def _choose_gpus(text: str) -> List[int]:
    if not text:
        return list(range(_count()))
    found = []
    for word in text.split(","):
        known = [index for index in range(_count()) if word in (str(index), _uuid(index))]
        if not known:
            raise Mistake("No devices were found")
        found += known
    return found


def _query_text(fields: str, form: str, gpus: Sequence[int]) -> str:
    forms = form.split(",")
    if "csv" not in forms:
        raise Mistake("\"--format=\" switch is missing.  Please run 'nvidia-smi -h' for help.")
    names = [name.strip() for name in fields.split(",")]
    for name in names:
        if name not in FIELDS:
            raise Mistake(f'Field "{name}" is not a valid field to query.')
    lines = []
    if "noheader" not in forms:
        lines.append(", ".join(map(_title, names)))
    for index in gpus:
        lines.append(", ".join(_value(name, index, "nounits" in forms) for name in names))
    return "".join(line + "\n" for line in lines)


def _title(name: str) -> str:
    unit = FIELDS[name][0]
    return f"{name} [{unit}]" if unit else name


def _value(name: str, index: int, bare: bool) -> str:
    unit, value = FIELDS[name]
    return f"{value(index)} {unit}" if unit and not bare else str(value(index))


def _table(gpus: Sequence[int]) -> str:
    edge = "+{}+\n".format("-" * 89)
    lines = [time.strftime("%a %b %d %H:%M:%S %Y\n"), edge]
    title = f"NVIDIA-SMI of a worldsize rehearsal     Driver {DRIVER}     CUDA Version: {CUDA}"
    lines.append(f"| {title:<87} |\n")
    lines += [edge, f"| {'GPU  Name':<42} | {'Memory-Usage':<20} | {'GPU-Util':<19} |\n"]
    for index in gpus:
        lines.append(f"| {index:3}  {NAME:<37} | {0:6}MiB / {MEMORY_MIB:6}MiB | {0:18}% |\n")
    return "".join([*lines, edge])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
