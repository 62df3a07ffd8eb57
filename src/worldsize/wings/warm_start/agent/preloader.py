"""The agent's end of the process that imports a node's modules once, and from which the node's ranks are forked.

The process itself is `wings/warm_start/inrank`. Both speak over one socket: lines of JSON, and then one byte for each
rank that is to go on.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Mapping, Sequence

from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.posix import processes
from worldsize.common.atomic_files import open_log
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any

VARIABLE = "WORLDSIZE_PRELOADER"
_FORKING = 30.0
"""Seconds within which the process has forked all ranks, or is given up."""

_LOOK = 0.1
"""Seconds between two looks whether it lives: its forks keep the socket open."""

_ENDED = "the process that preloads has ended"
_AT_MOST = 1 << 16


class PreloadError(Exception):
    """Why ranks cannot be forked, in words."""


class Preloader:
    """The process of a node that imports modules. `pid`: its own; `fileno` is readable once it has an answer, or has
    ended."""

    def __init__(
        self,
        first: Process,
        environment: Mapping[str, str],
        room: int,
        logs: Sequence[str],
        order: Mapping[str, Any],
        umask: int | None,
    ) -> None:
        """Start it as the `first` rank would be started, with `environment` instead of its own, and `room` for so many
        bytes more. `logs`: the paths of all ranks' logs. `order`: what it is to do, but for what is known here. Raises
        OSError."""
        self._socket, theirs = socket.socketpair()
        self._answers = b""
        files = [theirs.fileno()]
        try:
            files += [processes.move_above_standard(open_log(log)) for log in logs]
            base = max(files) + 1
            numbers = [base + number for number in range(len(files))]
            printed = os.fstat(files[1]).st_size
            self._send({**order, "agent": os.getpid(), "logs": numbers[1:], "printed": printed})
            variables = {**environment, VARIABLE: f"{numbers[0]} ".ljust(room, ".")}
            program = processes.find_program(first.argv[0], variables)
            with processes.CpuBinding(first.cpus):
                self.pid = processes.spawn(
                    program, first.argv, variables, first.log, first.held, umask, inherited=dict(zip(files, numbers))
                )
        except BaseException:
            self._socket.close()
            raise
        finally:
            theirs.close()
            for file in files[1:]:
                os.close(file)

    def fileno(self) -> int:
        return self._socket.fileno()

    def wait_for_modules(self) -> None:
        """Return once the modules are imported: at once if the socket is readable. PreloadError where they are not, or
        ranks are not to be forked from them."""
        self._read("imported")

    def fork(self, ranks: Sequence[Mapping[str, Any]]) -> list[int]:
        """Have it fork a process for each rank, and end; return the forks' pids. They wait until `go`. A rank has its
        `variables`, those that it is `without`, its `words`, its `cpus`, and the seconds `after` which it goes on.
        PreloadError where there are none."""
        self._socket.settimeout(_FORKING)
        try:
            self._send({"ranks": list(ranks)})
        except socket.timeout:
            raise PreloadError("the process that preloads does not listen") from None
        except OSError:
            raise PreloadError(_ENDED) from None
        self._wait_for_answer()
        pids = self._read("pids")
        if not (
            isinstance(pids, list) and len(pids) == len(ranks) and all(type(pid) is int and pid > 1 for pid in pids)
        ):
            raise PreloadError("the process that preloads has reported no processes")
        return pids

    def go(self, count: int) -> None:
        """Have so many forks go on as ranks."""
        try:
            self._socket.sendall(b"g" * count)
        except OSError:
            pass  # they have ended meanwhile: their exit codes say so
        self._socket.close()

    def close(self) -> None:
        """End it, if it lives; forks that wait end by themselves. Do not wait."""
        processes.signal_group(self.pid, signal.SIGKILL)
        self._socket.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _wait_for_answer(self) -> None:
        """Return once there is something to read. PreloadError where there is nothing in time, or it has ended."""
        until = time.monotonic() + _FORKING
        while not select.select([self._socket], [], [], _LOOK)[0]:
            ended = processes.has_ended(self.pid)
            if ended and not select.select([self._socket], [], [], 0)[0]:
                raise PreloadError(_ENDED)
            if time.monotonic() >= until:
                raise PreloadError(f"the process that preloads has not forked within {_FORKING:.0f} s")

    def _read(self, key: str) -> Any:
        """What its next line says of `key`. PreloadError where it says that it cannot go on, or has ended."""
        while b"\n" not in self._answers:
            try:
                data = self._socket.recv(_AT_MOST)
            except ConnectionError:
                raise PreloadError(_ENDED) from None
            except OSError as error:
                raise PreloadError(f"the process that preloads does not answer: {error}") from None
            if not data or len(self._answers) > _AT_MOST:
                raise PreloadError(_ENDED)
            self._answers += data
        line, _, self._answers = self._answers.partition(b"\n")
        try:
            message = json.loads(line)
            if "doubt" in message:
                raise PreloadError(str(message["doubt"]))
            return message[key]
        except PARSE_ERRORS as error:
            raise PreloadError(f"the process that preloads sent an invalid answer: {error}") from None
