"""The agent's side of the process that queries a node's GPUs (`program.py`). The process is started if there are any
GPUs, is never waited for longer than a moment, and is terminated with the run.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Mapping

from worldsize.agent.posix import processes
from worldsize.common.json_values import PARSE_ERRORS, check_fields, is_number, tuple_of
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.metrics.agent.records import GpuFacts, GpuSample

_PROGRAM = "import sys; sys.path.insert(0, sys.argv[1]); from {} import main; main()"
_MODULE = "worldsize.wings.metrics.agent.gpus.program"
_LONGEST = 1 << 17
"""The largest size of an answer in bytes; the answer for 64 GPUs has a tenth of it."""


class GpuTraffic(NamedTuple):
    """The memory traffic of a GPU. `traffic` is the share of the time since the last reading in which the GPU's memory
    was read or written. `listed` is whether the processes that compute on the GPU are known."""

    gpu: int
    traffic: float
    listed: bool


class GpuHelper:
    """The running process that queries the GPUs.

    pid        its process number
    gpus       the GPUs that it has found; None until it has reported them
    computing  the processes that the last reading has seen on GPUs: the number of the GPU, and that of the process
               in the initial PID namespace
    traffic    the GPUs' memory traffic according to the last reading
    """

    def __init__(self, environ: Mapping[str, str], program: str = sys.executable) -> None:
        """Start the process that queries the node's GPUs. Raise OSError if it cannot be started."""
        self._socket, other = socket.socketpair()
        self.gpus: tuple[GpuFacts, ...] | None = None
        self.computing: list[tuple[int, int]] = []
        self.traffic: list[GpuTraffic] = []
        self._said = bytearray()
        self._asked = self._ended = False
        self._cpu = 0.0
        package = os.path.abspath(__file__)
        for _ in range(6):  # gpus, agent, metrics, wings, worldsize, and its parent: a folder, or agent.pyz
            package = os.path.dirname(package)
        code = _PROGRAM.format(_MODULE)
        argv = (program, "-I", "-S", "-c", code, package, str(os.getpid()))
        with other:
            self.pid = processes.spawn_helper(program, argv, environ, os.devnull, stdin=other.fileno())

    def find(self, patience: float) -> tuple[GpuFacts, ...] | None:
        """Return the GPUs of the node once the helper process has reported them. Wait at most `patience` seconds; None
        if they are not known yet. Return () if the process has ended without a report."""
        if self.gpus is None:
            value = self._answer(patience)
            if value is not None:
                self.gpus = tuple(fact for fact in (_checked(GpuFacts, row) for row in _rows(value)) if fact)
        return () if self._ended and self.gpus is None else self.gpus

    def read(self, patience: float) -> tuple[tuple[GpuSample, ...], float]:
        """Request a reading of all GPUs from the helper process. Return a GpuSample for each GPU, and the seconds of
        CPU time that the process has used for them. Wait at most `patience` seconds; ((), 0.0) if no answer comes. An
        answer that comes later is dropped, and nothing is requested before it has come."""
        if not self.gpus or self._ended:
            return (), 0.0
        if self._asked and self._answer(0.0) is None:
            return (), 0.0
        self._ask()
        value = self._answer(patience)
        if value is None:
            return (), 0.0
        samples = self._reading(value)
        taken: Any = value.get("cpu")
        before, self._cpu = self._cpu, float(taken) if is_number(taken) else self._cpu
        return samples, max(0.0, self._cpu - before) if before else 0.0  # excludes the start

    def poll(self) -> tuple[GpuSample, ...]:
        """Return the reading of all GPUs (a GpuSample for each) that an earlier call has requested from the helper
        process; () if it has not come. Request the next reading. Do not wait."""
        value = self._answer(0.0) if self._asked else None
        if self.gpus and not self._asked and not self._ended:
            self._ask()
        return () if value is None else self._reading(value)

    def _reading(self, value: Mapping[str, Any]) -> tuple[GpuSample, ...]:
        self.computing = [(row[0], row[1]) for row in _rows(value, "processes") if _is_pair(row)]
        traffic = (_checked(GpuTraffic, row) for row in _rows(value, "traffic"))
        self.traffic = [each for each in traffic if each is not None]
        return tuple(sample for sample in (_checked(GpuSample, row) for row in _rows(value)) if sample)

    def _ask(self) -> None:
        try:
            self._socket.send(b"\n")
            self._asked = True
        except OSError:  # the process has ended
            self._ended = True

    def _answer(self, patience: float) -> dict[str, Any] | None:
        """Return the next line of the helper process as a JSON object; None if no line comes within `patience` seconds,
        or the process has ended. Return {} for a line that is not a JSON object."""
        while b"\n" not in self._said and not self._ended:
            if not select.select([self._socket], [], [], patience)[0]:
                return None
            try:
                data = self._socket.recv(1 << 16)
            except OSError:  # the process has ended
                data = b""
            self._said += data
            self._ended = not data or len(self._said) > _LONGEST
        if self._ended:
            return None
        line, _, self._said = self._said.partition(b"\n")
        self._asked = False
        try:
            value = json.loads(line)
        except PARSE_ERRORS:
            return {}
        return value if isinstance(value, dict) else {}

    def end(self, is_unreaped: bool) -> None:
        """Terminate the helper process without waiting. `is_unreaped` is whether the process has not been reaped, so
        that its number still belongs to it; without it, no signal is sent."""
        self._socket.close()
        if is_unreaped:
            processes.signal_process(self.pid, signal.SIGKILL)


def _rows(value: Mapping[str, Any], name: str = "gpus") -> list[Any]:
    rows = value.get(name)
    return rows if isinstance(rows, list) else []


def _is_pair(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 2 and all(type(each) is int for each in row)


def _checked(kind: Any, row: Any) -> Any:
    try:
        return check_fields(tuple_of(kind, row))
    except PARSE_ERRORS:
        return None
