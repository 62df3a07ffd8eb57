"""The nvidia-smi of a rehearsal: a program that answers for the virtual GPUs. Imports no module of worldsize.

The table, -L, --query-gpu=… --format=csv[,noheader][,nounits], --query-compute-apps, -i, --help-query-gpu. Like the
real program, it shows all GPUs of the node, independent of CUDA_VISIBLE_DEVICES.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
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
"""The fields that can be queried: the unit, and a function that returns the value for a GPU."""


class Mistake(Exception):
    """An error in the options. Its text is printed before the program exits with 2."""


def _count() -> int:
    return int(os.environ.get("WORLDSIZE_VIRTUAL_GPUS") or 0)


def main(words: Sequence[str]) -> int:
    try:
        sys.stdout.write(_answer(_parse_options(words)))
    except Mistake as mistake:
        sys.stdout.write(f"{mistake}\n")
        return 2
    return 0


def _parse_options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("nvidia-smi", description=__doc__, allow_abbrev=False)
    for names in (("-L", "--list-gpus"), ("--help-query-gpu",)):
        parser.add_argument(*names, action="store_true")
    for names in (("-i", "--id"), ("--query-gpu",), ("--query-compute-apps",), ("--format",)):
        parser.add_argument(*names, default="")
    options, unknown = parser.parse_known_args(words)
    if unknown:
        option = unknown[0].partition("=")[0]
        raise Mistake(f"nvidia-smi of a rehearsal does not know {option} (docs/how-to/training/rehearsal.md)")
    return options


def _answer(options: argparse.Namespace) -> str:
    if options.help_query_gpu:
        return "".join(f'"{name}"\n' for name in FIELDS)
    gpus = _choose_gpus(options.id)
    if options.list_gpus:
        return "".join(f"GPU {index}: {NAME} (UUID: {_uuid(index)})\n" for index in gpus)
    if options.query_gpu:
        return _query_text(options.query_gpu, options.format.split(","), gpus)
    if options.query_compute_apps:
        return "" if "noheader" in options.format else options.query_compute_apps + "\n"
    return _table(gpus)


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


def _query_text(fields: str, forms: Sequence[str], gpus: Sequence[int]) -> str:
    if "csv" not in forms:
        raise Mistake("\"--format=\" switch is missing.  Please run 'nvidia-smi -h' for help.")
    names = [name.strip() for name in fields.split(",")]
    for name in names:
        if name not in FIELDS:
            raise Mistake(f'Field "{name}" is not a valid field to query.')
    lines = [] if "noheader" in forms else [", ".join(map(_title, names))]
    lines += [", ".join(_value(name, index, "nounits" in forms) for name in names) for index in gpus]
    return "".join(line + "\n" for line in lines)


def _title(name: str) -> str:
    unit = FIELDS[name][0]
    return f"{name} [{unit}]" if unit else name


def _value(name: str, index: int, bare: bool) -> str:
    unit, value = FIELDS[name]
    return f"{value(index)} {unit}" if unit and not bare else str(value(index))


def _table(gpus: Sequence[int]) -> str:
    edge = "+{}+\n".format("-" * 89)
    title = f"NVIDIA-SMI of a worldsize rehearsal     Driver {DRIVER}     CUDA Version: {CUDA}"
    return "".join([
        time.strftime("%a %b %d %H:%M:%S %Y\n"), edge, f"| {title:<87} |\n", edge,
        f"| {'GPU  Name':<42} | {'Memory-Usage':<20} | {'GPU-Util':<19} |\n",
        *(f"| {index:3}  {NAME:<37} | {0:6}MiB / {MEMORY_MIB:6}MiB | {0:18}% |\n" for index in gpus), edge,
    ])  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
