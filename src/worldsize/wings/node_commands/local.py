"""Commands next to the ranks of runs on this machine, one for each virtual node."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping

from worldsize.compute.base import Handle
from worldsize.compute.capabilities import NodeCommand, NodeCommandStream
from worldsize.errors import SubmitRejected, UsageError
from worldsize.wings.node_commands.agent import run_command
from worldsize.wings.node_commands.by_process import (
    OutputRules,
    ProcessCommandStream,
    command_spec,
    program,
    with_command_spec,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def execute(handle: Handle | None, command: NodeCommand, environ: Mapping[str, str]) -> NodeCommandStream:
    _check_host(handle)
    argv = [sys.executable, "-I", "-S", "-c", program()]
    return ProcessCommandStream(
        argv, with_command_spec(environ, command_spec(command)), OutputRules(lambda text: SubmitRejected(text, "exec"))
    )


def open_shell(handle: Handle, command: NodeCommand) -> NoReturn:
    _check_host(handle)
    run_command.become_shell(run_command.with_plan(command_spec(command)), command.nodes[0])


def _check_host(handle: Handle | None) -> None:
    if handle is not None and handle["host"] != socket.gethostname():
        raise UsageError(f"it runs on {handle['host']}", None, "log in there")
