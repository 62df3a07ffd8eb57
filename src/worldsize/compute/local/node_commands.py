"""This machine as a compute tells of it, and commands beside the ranks of its runs: once per virtual node."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping

from worldsize.agent.node_programs import run_command
from worldsize.compute.base import Handle
from worldsize.compute.capabilities import ComputeNode, NodeCommand, NodeCommandStream
from worldsize.compute.node_commands.by_process import (
    OutputRules,
    ProcessCommandStream,
    command_spec,
    with_command_spec,
)
from worldsize.errors import SubmitRejected, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PROC_GPUS = "/proc/driver/nvidia/gpus"
_PATIENCE = 10.0


def nodes() -> list[ComputeNode]:
    total, available = _memory()
    models = _gpu_models()
    return [
        ComputeNode(
            name=socket.gethostname(),
            state="up",
            cpus=len(os.sched_getaffinity(0)),
            memory=total,
            memory_free=available,
            gpu_type=",".join(dict.fromkeys(models)),
            gpus=len(models),
        )
    ]


def execute(handle: Handle | None, command: NodeCommand, environ: Mapping[str, str]) -> NodeCommandStream:
    _check_host(handle)
    argv = [sys.executable, "-I", "-S", run_command.__file__]
    return ProcessCommandStream(
        argv, with_command_spec(environ, command_spec(command)), OutputRules(lambda text: SubmitRejected(text, "exec"))
    )


def open_shell(handle: Handle, command: NodeCommand) -> NoReturn:
    _check_host(handle)
    wanted = command_spec(command)
    if wanted["plan"] is not None:
        with open(wanted["plan"], encoding="utf-8") as file:
            wanted["plan"] = json.load(file)
    run_command.become_shell(wanted, command.nodes[0])


def _check_host(handle: Handle | None) -> None:
    if handle is not None and handle["host"] != socket.gethostname():
        raise UsageError(f"it runs on {handle['host']}", None, "log in there")


def _memory() -> tuple[int | None, int | None]:
    """Total and available MiB."""
    found = {}
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                found[name] = int(value.split()[0]) >> 10
    except OSError:
        pass
    return found.get("MemTotal"), found.get("MemAvailable")


def _gpu_models() -> list[str]:
    """The model of each NVIDIA device, as the driver says in /proc or, where that is hidden, nvidia-smi."""
    models = []
    try:
        for name in sorted(os.listdir(_PROC_GPUS)):
            with open(os.path.join(_PROC_GPUS, name, "information")) as file:
                models += [line.partition(":")[2].strip() for line in file if line.startswith("Model:")]
    except OSError:
        pass
    return models or _nvidia_smi_models()


def _nvidia_smi_models() -> list[str]:
    argv = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
