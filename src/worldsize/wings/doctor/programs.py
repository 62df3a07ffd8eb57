"""Execution of other programs side by side, each with a time limit, and their output as bounded plain text.

A program may hang, print without end, or print bytes that drive a terminal.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

from worldsize.agent.posix.processes import find_program
from worldsize.common.named_tuple import NamedTuple
from worldsize.compute.slurm.commands import clean_environ
from worldsize.logs.text import to_text, without_colours

SECONDS = 5.0
_MOST_BYTES = 256 << 10
_MOST_CHARACTERS = 160
_PATIENCE = 0.5


class Answer(NamedTuple):
    """The answer of a program.

    path  the program's file; "" if it is not on PATH
    code  its exit code, 128+N for signal N; None if it gave none in time, printed too much, or was not started
    out   what it printed on stdout and stderr, without characters that drive a terminal
    why   the reason why `code` is None, if the program exists
    """

    path: str = ""
    code: int | None = None
    out: str = ""
    why: str = ""

    @property
    def line(self) -> str:
        """The first line of the output that is not empty, at most 160 characters."""
        line = next((line.strip() for line in self.out.split("\n") if line.strip()), "")
        return line if len(line) <= _MOST_CHARACTERS else line[: _MOST_CHARACTERS - 1] + "…"

    @property
    def succeeded(self) -> bool:
        return self.code == 0


MISSING = Answer()


def execute_all(
    commands: Mapping[str, Sequence[str]], environ: Mapping[str, str], seconds: float = SECONDS
) -> dict[str, Answer]:
    """Execute the `commands`, all at the same time, and return their answers by the same names. Programs are found on
    the absolute directories of the PATH of `environ`, and get no input. After `seconds` those that still run are killed
    with all processes of their groups."""
    places = [each for each in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(each)]
    own = {**clean_environ(environ), "PATH": os.pathsep.join(places)}
    answers: dict[str, Answer] = {}
    started: dict[str, tuple[str, subprocess.Popen[bytes]]] = {}
    for name, words in commands.items():
        try:
            path = find_program(words[0], own)
            started[name] = path, _start((path, *words[1:]), own)
        except FileNotFoundError:
            answers[name] = MISSING
        except OSError as error:
            answers[name] = Answer(words[0], why=error.strerror or str(error))
    outputs = _read_all({name: process for name, (_, process) in started.items()}, time.monotonic() + seconds)
    for name, (path, process) in started.items():
        code = _end(process)
        why = ""
        if len(outputs[name]) > _MOST_BYTES:
            code, why = None, "it prints without end"
        elif code is None:
            why = f"no answer in {seconds:g} s"
        answers[name] = Answer(path, code, without_colours(to_text(outputs[name][:_MOST_BYTES])), why)
    return {name: answers[name] for name in commands}


def _start(words: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        words,
        env=environ,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _read_all(processes: Mapping[str, subprocess.Popen[bytes]], deadline: float) -> dict[str, bytes]:
    """Return what the processes print until the deadline, until they have ended, or until it is too much."""
    outputs = dict.fromkeys(processes, b"")
    with selectors.DefaultSelector() as selector:
        for name, process in processes.items():
            selector.register(_output(process), selectors.EVENT_READ, name)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                part = os.read(key.fd, 1 << 16)
                outputs[key.data] += part
                if len(outputs[key.data]) > _MOST_BYTES:
                    _kill(processes[key.data])
                if not part or len(outputs[key.data]) > _MOST_BYTES:
                    selector.unregister(key.fileobj)
        for process in processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))  # it may have closed its output and live on
            except subprocess.TimeoutExpired:
                pass
    return outputs


def _output(process: subprocess.Popen[bytes]) -> int:
    assert process.stdout is not None
    return process.stdout.fileno()


def _end(process: subprocess.Popen[bytes]) -> int | None:
    """Return the exit code of the process. If it has not ended, kill its group and return None. A process that waits
    for a driver or a file server cannot be killed, and is left alone."""
    code = process.poll()
    if code is None:
        _kill(process)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            pass
    if process.stdout is not None:
        process.stdout.close()
    return code if code is None or code >= 0 else 128 - code


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
