"""The process that collects facts about a node's hardware and software, and writes them to one file.

The agent starts the process and does not wait for it, since a process cannot be ended while a file server or driver
that it queries does not answer. The environment variable ORDER holds its order. It ends with the agent at the latest.

The file is written as soon as the hardware is known, so that a short run has at least that. It is written again with
the software, which is read at the lowest priority: that may take a minute next to ranks that use all cores. GPU drivers
are queried last.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import math
import os
import signal
from collections.abc import Mapping

from worldsize.agent.machine.cores import read_cores
from worldsize.agent.posix.processes import end_with_parent, host_name
from worldsize.common.atomic_files import write_json
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.facts.agent.gpus import find_gpus, gpu_rows
from worldsize.wings.facts.agent.hardware import hardware_rows, machine_of
from worldsize.wings.facts.agent.programs import program_rows
from worldsize.wings.facts.agent.software import driver_row, runs_in_image, software_rows, system_text

ORDER = "WORLDSIZE_FACTS_ORDER"
FACTS_VERSION = 1
_LOWEST = 19
_ORDER_OF_ROWS = ("system", "driver", "framework", "MPI", "CUDA", "NCCL", "cuDNN", "Python", "compiler")


class Order(NamedTuple):
    """The order for this process.

    path       the file to write
    nodes      the nodes that are this machine, which share the facts
    agent      the process ID of the agent that started this process
    argv       the words of a rank's command that name programs
    directory  the directory in which the command is started
    variables  those of a rank's environment that decide which programs and packages it finds
    gpus       whether to look for GPUs
    python     the name of Python to use if the command names none
    """

    path: str
    nodes: tuple[int, ...]
    agent: int
    argv: tuple[str, ...]
    directory: str
    variables: Mapping[str, str]
    gpus: bool = True
    python: str = "python"


def main() -> None:
    end_with_parent(signal.SIGKILL)
    order = Order(**json.loads(os.environ[ORDER]))
    if os.getppid() != order.agent:
        return
    try:
        write_hardware(order)
        os.nice(_LOWEST)
        write_facts(order, os.environ)
    except OSError:
        return  # the disk is full, or the run was removed: others report it


def write_hardware(order: Order, root: str = "/") -> None:
    """Write the node's hardware facts that the kernel provides to the file `order.path`. Raise OSError if that
    fails."""
    _make_directory(os.path.dirname(order.path))
    write_json(order.path, _facts(order, root, {"complete": False}))


def write_facts(order: Order, environ: Mapping[str, str], root: str = "/") -> None:
    """Collect the facts about the node's software and GPUs, and write them together with the hardware to the file
    `order.path`. `environ` names the visible GPUs. Raise OSError."""
    software = _software(order, root)
    write_json(order.path, _facts(order, root, {"software": _ordered(software), "complete": not order.gpus}))
    if not order.gpus:
        return
    gpus, driver = find_gpus(environ, root), driver_row(root)
    found = {"hardware": hardware_rows(root, gpu_rows(gpus)), "software": _ordered(software + driver)}
    write_json(order.path, _facts(order, root, {**found, "gpus": len(gpus)}))


def _software(order: Order, root: str) -> tuple[tuple[str, str], ...]:
    """Return the rows (name, text) of the software that the node's ranks find. For ranks in a container image, whose
    contents are not examined, return only the row of the node's system."""
    if runs_in_image(order.argv):
        return (("system", f"{system_text(root)}; ranks in an image"),)
    words = (*order.argv, order.python)
    return software_rows(words, order.directory, order.variables, root) + program_rows(order.variables)


def _make_directory(path: str) -> None:
    """Create a directory with the mode of its parent. The parent must exist, so that the directory of a removed run is
    not created again. Raise OSError."""
    try:
        os.mkdir(path, os.stat(os.path.dirname(path)).st_mode & 0o777)
    except FileExistsError:
        pass  # another node's process has made it


def _facts(order: Order, root: str, found: Mapping[str, Any]) -> dict[str, Any]:
    host = host_name()
    return {
        "version": FACTS_VERSION,
        "nodes": order.nodes,
        "host": host,
        "machine": machine_of(root, host),
        "cores": max(1, math.ceil(read_cores(root).usable)),
        "gpus": 0,
        "hardware": hardware_rows(root),
        "software": [],
        **found,
    }


def _ordered(rows: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    return sorted(rows, key=lambda row: _ORDER_OF_ROWS.index(row[0]))
