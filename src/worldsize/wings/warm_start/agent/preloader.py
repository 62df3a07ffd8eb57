"""The agent's side of the preloader: the process that imports a node's modules once, and from which the node's ranks
are forked.

The process itself is `wings/warm_start/inrank`. The two communicate over one socket: lines of JSON, and then one byte
for each rank that may continue.

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
"""Seconds within which the process must have forked all ranks; it is given up after that."""

_LOOK = 0.1
"""Seconds between two checks whether the process lives: its forks keep the socket open."""

_ENDED = "the process that preloads has ended"
_AT_MOST = 1 << 16


class PreloadError(Exception):
    """An error: the reason, in words, why ranks cannot be forked."""


class Preloader:
    """The process of a node that imports modules. `pid` is its process id. `fileno` becomes readable once it has an
    answer, or has ended."""

    def __init__(
        self,
        first: Process,
        environment: Mapping[str, str],
        room: int,
        logs: Sequence[str],
        order: Mapping[str, Any],
        umask: int | None,
    ) -> None:
        """Start the process that preloads modules, as the `first` rank would be started, with `environment` instead of
        the rank's own, and `room` for that number of further bytes of variables. `logs` contains the paths of all
        ranks' logs. `order` contains the process's instructions, except those that are computed here. Raise OSError."""
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
        """Wait until the preloading process has imported the modules, without delay if `fileno` is readable. Raise
        PreloadError if the import failed, or ranks must not be forked from the process."""
        self._read("imported")

    def fork(self, ranks: Sequence[Mapping[str, Any]]) -> list[int]:
        """Make the preloading process fork once for each of `ranks`, and end. Return the process ids of the forks,
        which wait until `go`. The mapping of a rank contains its `variables`, the names of variables to remove
        (`without`), its `words`, its `cpus`, and the seconds `after` which it continues. Raise PreloadError if there
        are no forks."""
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
        """Permit `count` forks of the preloading process to continue as ranks, and close the socket to it."""
        try:
            self._socket.sendall(b"g" * count)
        except OSError:
            pass  # the forks have ended meanwhile, which their exit codes show
        self._socket.close()

    def close(self) -> None:
        """Kill the preloading process, if it lives, without waiting for its end. Waiting forks end by themselves."""
        processes.signal_group(self.pid, signal.SIGKILL)
        self._socket.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _wait_for_answer(self) -> None:
        """Wait until the socket has an answer of the preloading process to read. Raise PreloadError if there is none
        within `_FORKING` seconds, or the process has ended."""
        until = time.monotonic() + _FORKING
        while not select.select([self._socket], [], [], _LOOK)[0]:
            ended = processes.has_ended(self.pid)
            if ended and not select.select([self._socket], [], [], 0)[0]:
                raise PreloadError(_ENDED)
            if time.monotonic() >= until:
                raise PreloadError(f"the process that preloads has not forked within {_FORKING:.0f} s")

    def _read(self, key: str) -> Any:
        """Read the next line of JSON from the preloading process, and return its value of `key`. Raise PreloadError if
        the process reports that it cannot continue, or has ended."""
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
