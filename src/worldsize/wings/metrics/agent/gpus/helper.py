"""The agent's side of the process that asks a node's GPUs (`program.py`): started where there are any, asked without
being waited for longer than a moment, and ended with the run.

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
"""Bytes of an answer; one of 64 GPUs has a tenth."""


class GpuTraffic(NamedTuple):
    """`traffic`: the share of the time since the last reading in which the GPU's memory was read or written; `listed`:
    whether the processes that compute on it are known."""

    gpu: int
    traffic: float
    listed: bool


class GpuHelper:
    """The process, running.

    pid        its number
    gpus       what it has found; None until it has said so
    computing  the processes that the last reading has seen on GPUs: GPU and process, as the first namespace of
               processes numbers them
    traffic    what it has seen of the GPUs' memory
    """

    def __init__(self, environ: Mapping[str, str], program: str = sys.executable) -> None:
        """Start it. Raises OSError."""
        self._socket, other = socket.socketpair()
        self.gpus: tuple[GpuFacts, ...] | None = None
        self.computing: list[tuple[int, int]] = []
        self.traffic: list[GpuTraffic] = []
        self._said = bytearray()
        self._asked = self._ended = False
        self._cpu = 0.0
        package = os.path.abspath(__file__)
        for _ in range(6):  # gpus, agent, metrics, wings, worldsize, and what holds that: a folder, or agent.pyz
            package = os.path.dirname(package)
        code = _PROGRAM.format(_MODULE)
        argv = (program, "-I", "-S", "-c", code, package, str(os.getpid()))
        with other:
            self.pid = processes.spawn_helper(program, argv, environ, os.devnull, stdin=other.fileno())

    def find(self, patience: float) -> tuple[GpuFacts, ...] | None:
        """What GPUs there are, once the process has said so; waits at most `patience` seconds."""
        if self.gpus is None:
            value = self._answer(patience)
            if value is not None:
                self.gpus = tuple(fact for fact in (_checked(GpuFacts, row) for row in _rows(value)) if fact)
        return () if self._ended and self.gpus is None else self.gpus

    def read(self, patience: float) -> tuple[tuple[GpuSample, ...], float]:
        """Return a reading of all GPUs, and the seconds of CPU that the process has taken for it. Waits at most
        `patience` seconds; an answer that comes later is dropped, and nothing is asked before it has come."""
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
        return samples, max(0.0, self._cpu - before) if before else 0.0  # the start is not a reading's

    def poll(self) -> tuple[GpuSample, ...]:
        """Return the reading that a former call has asked for; () where it has not come. Waits for nothing, and asks
        for the next one."""
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
        except OSError:  # it has ended
            self._ended = True

    def _answer(self, patience: float) -> dict[str, Any] | None:
        """Its next line; None where none comes in time, or ever."""
        while b"\n" not in self._said and not self._ended:
            if not select.select([self._socket], [], [], patience)[0]:
                return None
            try:
                data = self._socket.recv(1 << 16)
            except OSError:  # it has ended
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
        """End it, without waiting. `is_unreaped`: nobody has waited for it, so the number is its own."""
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
