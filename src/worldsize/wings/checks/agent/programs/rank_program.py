"""Processes of the job's Python that measure something. Each gets its program as text and sends reports.

A program writes lines `worldsize-check {…}` to its standard output, among the output of libraries. Its standard input
is a lifeline: the program ends when it is closed.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence

from worldsize.agent.posix.processes import signal_group
from worldsize.common.atomic_files import printable_text
from worldsize.common.named_tuple import Any
from worldsize.trust.secrets import mask_text
from worldsize.wings.checks.agent.programs.program_output import killed_code

MARK = b"worldsize-check "
MAX_LINE = 64 << 10
MAX_OUTPUT = 1 << 20
MAX_ERROR = 300
_LAST_WORDS = 4096
_MOMENT = 1.0
"""Timeout in seconds for operations that take milliseconds."""


class RankProgram:
    """A process of the job's Python that runs a measuring program of the node check. `report` contains everything that
    the program has reported so far: later lines add to earlier ones."""

    def __init__(self, python: str, program: str, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start the Python at the path `python` with the source text `program` and its arguments. The working directory
        is `/`, so that no module in a user's directory replaces one of a library. Raise OSError."""
        self.report: dict[str, Any] = {}
        self._changed = threading.Condition()
        self._ended = False
        self._heard = time.monotonic()
        self._errors = b""
        self._process = subprocess.Popen(
            [python, "-c", program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environ),
            cwd="/",
            start_new_session=True,
        )
        self._readers = [threading.Thread(target=read, daemon=True) for read in (self._read_errors, self._read)]
        for reader in self._readers:
            reader.start()

    def wait_for(self, key: str, deadline: float) -> Any:
        """Wait until the measuring program reports this key, and return the key's value. None if the program ends or
        the deadline passes first."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or key in self.report, max(0.0, deadline - time.monotonic()))
            return self.report.get(key)

    def tell(self, line: str) -> None:
        """Write a line to the measuring program's standard input. Do nothing if the program has ended."""
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it has ended: its report shows how far it came

    def wait(self, deadline: float) -> bool:
        """Wait for the end of the measuring program, and return whether it has ended before the deadline (a monotonic
        time)."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ended, max(0.0, deadline - time.monotonic()))

    def stop(self) -> dict[str, Any]:
        """Kill the measuring program and every process that it has started, and return its report. If the program
        failed by itself, `error` is its error or the last line of its standard error. If it had to be killed, `silent`
        is the number of seconds since its last report. An error is one line without secrets."""
        silent = time.monotonic() - self._heard
        status = self._status()
        signal_group(self._process.pid, signal.SIGKILL)
        code = killed_code(self._process)
        _close(self._process.stdin)
        for reader, pipe in zip(self._readers, (self._process.stderr, self._process.stdout)):
            reader.join(_MOMENT)
            if not reader.is_alive():  # else a process that it started has the output open, and closing would block
                _close(pipe)
        report = dict(self.report)
        if code is None:
            report["error"] = "it hangs in the kernel, and cannot be killed: check the node's GPUs and file systems"
        elif status is None:
            report["silent"] = silent
        elif status != 0 and "error" not in report:
            report["error"] = self._last_words() or f"ended with exit code {code}"
        if "error" in report:
            report["error"] = mask_text(printable_text(" ".join(str(report["error"]).split())))[:MAX_ERROR]
        return report

    def _status(self) -> int | None:
        """Return the exit code of the measuring program; None while it is running. If the program has closed its
        output, wait up to one second for its end."""
        try:
            return self._process.wait(_MOMENT if self._ended else 0.0)
        except subprocess.TimeoutExpired:
            return None

    def _read(self) -> None:
        assert self._process.stdout is not None
        left = MAX_OUTPUT
        try:
            while line := self._process.stdout.readline(MAX_LINE):
                left -= len(line)
                if left > 0 and line.startswith(MARK):
                    self._add(line[len(MARK) :])
        except (OSError, ValueError):
            pass  # `stop` has closed the pipe
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _read_errors(self) -> None:
        """Read the measuring program's standard error and keep the last 4096 bytes in memory. They are not written to a
        disk, which may be full."""
        assert self._process.stderr is not None
        try:
            while part := os.read(self._process.stderr.fileno(), _LAST_WORDS):
                self._errors = (self._errors + part)[-_LAST_WORDS:]
        except (OSError, ValueError):
            pass  # `stop` has closed the pipe

    def _add(self, text: bytes) -> None:
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return  # a line of another program, an incomplete line, or one of too many brackets
        if isinstance(found, dict):
            with self._changed:
                self.report.update(found)
                self._heard = time.monotonic()
                self._changed.notify_all()

    def _last_words(self) -> str:
        """Return the last line that the measuring program wrote to its standard error; "" if there is none."""
        lines = self._errors.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip() if lines else ""


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except OSError:
        pass  # the data that was not written yet has no reader any more
