"""The shepherd: the process on a node that is the ancestor of one task's processes. It starts the command line, keeps
its output, and ends all of the task's processes.

All processes of a task stay below its shepherd (a child subreaper). They are ended when the command line ends, when the
task is cancelled, or when the node's process ends, which the shepherd detects by the node's end of a socket.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping
from typing import Any

from worldsize.agent.posix.processes import become_subreaper, children, trees

MAX_OUTPUT_BYTES = 1500
"""The largest number of bytes of each stream that a node sends to the head node."""


class TaskOrder:
    """The head node's order to start a task, as it was received."""

    def __init__(self, words: Mapping[str, Any]) -> None:
        self.key: str = words["key"]
        self.command: str = words["command"]
        self.environ: dict[str, str] = words["environ"]
        self.directory: str = words["directory"]
        self.files: tuple[str, str, str] = (words["stdin"], words["stdout"], words["stderr"])


def run_task(order: TaskOrder, line: socket.socket) -> None:
    """Run the command line of a simulated cluster's task to its end, and send the result (exit code, output, trouble)
    on `line` as one line of JSON. Never return before the end."""
    os.setsid()
    become_subreaper()
    try:
        process = _start(order)
    except OSError as error:
        told = {"code": -1, "output": "", "trouble": f"{error.filename or order.directory}: {error.strerror}"}
    else:
        told = _watch(process, line)
    with contextlib.suppress(OSError):
        line.sendall(json.dumps(told).encode() + b"\n")


def _start(order: TaskOrder) -> subprocess.Popen[bytes]:
    """Start the task's command line in a shell, with its working directory, variables and files of streams, and return
    its process. Raise OSError, with the file's name, if the working directory or a file of a stream cannot be opened.
    """
    os.chdir(order.directory)
    modes = (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    opened: list[int] = []
    try:
        for path, mode in zip(order.files, modes, strict=True):
            opened.append(os.open(path, mode, 0o666) if path else -1)
        streams = [subprocess.DEVNULL if opened[0] < 0 else opened[0]]
        streams += [subprocess.PIPE if each < 0 else each for each in opened[1:]]
        return subprocess.Popen(
            ["/bin/sh", "-c", order.command],
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            env=order.environ,
            start_new_session=True,
        )
    finally:
        for each in opened:
            if each >= 0:
                os.close(each)


def _watch(process: subprocess.Popen[bytes], line: socket.socket) -> dict[str, Any]:
    """Wait until the task's process has ended; end it if the head node requests that on `line`. Then end all other
    processes of the task. Return the exit code and the beginning of the output as a JSON object."""
    kept = {pipe: bytearray() for pipe in (process.stdout, process.stderr) if pipe is not None}
    deadline: float | None = None
    end = os.pidfd_open(process.pid)
    with selectors.DefaultSelector() as selector:
        for pipe in kept:
            os.set_blocking(pipe.fileno(), False)
        watched: list[Any] = [line, end, *kept]
        for each in watched:
            selector.register(each, selectors.EVENT_READ)
        while process.poll() is None:
            for key, _ in selector.select(None if deadline is None else max(0.0, deadline - time.monotonic())):
                if key.fileobj is line:
                    deadline = _begin_grace(line, deadline)
                elif key.fileobj is not end and not _read_output(key.fileobj, kept):
                    selector.unregister(key.fileobj)
            if deadline is not None and time.monotonic() >= deadline:
                end_all(process)
    os.close(end)
    end_all(process)
    for pipe in kept:
        _read_output(pipe, kept)
    text = "".join(bytes(each).decode("utf-8", "replace") for each in kept.values())
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return {"code": code, "output": text, "trouble": ""}


def _begin_grace(line: socket.socket, deadline: float | None) -> float:
    """Read the grace period in the request to end the task from `line`. Send INT to all processes of the task, as HPC
    Pack's agent does, if there is a grace period. Return the time at which they are killed, not later than a former
    `deadline`."""
    words = line.recv(4096)
    grace = float(words.split(b"\n")[-2]) if words.endswith(b"\n") else 0.0
    if grace > 0:
        for pid in trees(children()):
            _signal(pid, signal.SIGINT)
            _signal(pid, signal.SIGCONT)
    until = time.monotonic() + grace
    return until if deadline is None else min(until, deadline)


def _read_output(pipe: Any, kept: Mapping[Any, bytearray]) -> bool:
    """Read the available output of a task from `pipe`, and keep its beginning in `kept`. Return whether there may be
    more later."""
    while True:
        try:
            data = os.read(pipe.fileno(), 65536)
        except BlockingIOError:
            return True
        if not data:
            return False
        kept[pipe].extend(data[: max(0, MAX_OUTPUT_BYTES - len(kept[pipe]))])


def end_all(main: subprocess.Popen[bytes] | None = None) -> None:
    """Kill all processes below this process, including those that have left their session or group, until none is left.
    The exit code of the child `main` is not lost."""
    while True:
        living = [pid for pid in trees(children()) if main is None or pid != main.pid or main.poll() is None]
        if not living:
            return
        kill(living, None if main is None else main.pid)


def kill(pids: Iterable[int], spared: int | None = None) -> None:
    """Kill the processes `pids` with SIGKILL. Reap those that are children of this process, except `spared`, and give
    the others time to become its children."""
    doomed = list(pids)
    for pid in doomed:
        _signal(pid, signal.SIGKILL)
    for pid in doomed:
        if pid != spared:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
    time.sleep(0.002)


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
