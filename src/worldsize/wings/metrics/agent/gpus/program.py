"""The process that queries a node's GPUs. It is separate from the agent because a driver that hangs keeps its callers
from exiting.

It writes to its standard input, a socket, which GPUs there are, and then answers each line with a reading of all of
them. It ends when the socket is closed, and with the agent's thread that started it.

    <- {"gpus":[[0,"GPU-…","NVIDIA H100 80GB HBM3",85899345920]]}
    -> (an empty line)
    <- {"gpus":[[0,0.97,4000000000,312.0]],"processes":[[0,4711]],"traffic":[[0,0.41,true]],"cpu":0.08}

`processes` lists those that compute, each with its GPU. `traffic` covers the GPUs that are not divided: the share of
the time in which memory was read or written, and whether their processes are known. `cpu` is the CPU time in seconds
that this process has used so far.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping

from worldsize.agent.machine.visible_gpus import visible_gpus
from worldsize.agent.posix.processes import end_with_parent
from worldsize.common.atomic_files import write_all
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.metrics.agent.gpus.amd import amd_gpus
from worldsize.wings.metrics.agent.gpus.devices import VISIBLE
from worldsize.wings.metrics.agent.gpus.nvml import Facts, Nvml

_AMD_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_SOCKET = 0


class Found(NamedTuple):
    """A GPU with its number on the node. `device` has the methods `read()` and `processes()`."""

    number: int
    facts: Facts
    device: Any

    @property
    def uuid(self) -> str:
        return self.facts.uuid

    @property
    def mig(self) -> bool:
        return self.facts.mig


def main() -> None:
    """Report the node's GPUs on the socket, then answer each request with a reading of all GPUs until the socket is
    closed. Return at once if there is no GPU, or if the parent is not the process given by the second argument, which
    started this one."""
    end_with_parent(signal.SIGKILL)
    if str(os.getppid()) != sys.argv[2]:
        return
    gpus = find_gpus(os.environ)
    _say({"gpus": [(gpu.number, gpu.uuid, gpu.facts.model, gpu.facts.memory) for gpu in gpus]})
    while gpus and os.read(_SOCKET, 4096):
        _say({**read_gpus(gpus), "cpu": time.process_time()})


def read_gpus(gpus: Iterable[Found]) -> dict[str, Any]:
    """Return a reading of all GPUs as the JSON object {gpus, processes, traffic} that is sent to the agent."""
    found = [(gpu, gpu.device.read(), gpu.device.processes()) for gpu in gpus]
    return {
        "gpus": [(gpu.number, *reading[:3]) for gpu, reading, _ in found],
        "processes": [(gpu.number, pid) for gpu, _, pids in found for pid in pids or ()],
        "traffic": [
            (gpu.number, reading.traffic, pids is not None)
            for gpu, reading, pids in found
            if reading.traffic is not None and not gpu.mig
        ],
    }


def find_gpus(environ: Mapping[str, str]) -> list[Found]:
    """Return the GPUs of this node that a program with the environment `environ` sees: NVIDIA's, else AMD's. If the
    environment names some of AMD's GPUs, they are returned only if it names all of them, because the environment's
    numbering is not the kernel's."""
    nvidia = _nvidia()
    if nvidia:
        return visible_gpus(nvidia, environ.get(VISIBLE))
    amd = _found(amd_gpus())
    named = [environ[name].split(",") for name in _AMD_VISIBLE if name in environ]
    return amd if all(len(words) == len(amd) for words in named) else []


def _nvidia() -> list[Found]:
    try:
        nvml = Nvml()
    except OSError:
        return []  # there is no such driver
    return _found(nvml.device(index) for index in range(nvml.count))


def _found(devices: Iterable[Any]) -> list[Found]:
    return [Found(number, device.facts(), device) for number, device in enumerate(devices) if device is not None]


def _say(value: Mapping[str, Any]) -> None:
    write_all(_SOCKET, json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n")
