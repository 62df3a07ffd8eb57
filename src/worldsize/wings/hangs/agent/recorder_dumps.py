"""Dumps of PyTorch's Flight Recorder that ranks write on request through a pipe.

The pipe of the hook in the ranks (`inrank.recorder`) no longer has a name: it is opened through the rank's own
descriptor. So no other process can receive a request by mistake. A rank that has closed the pipe, or holds Python's
lock elsewhere, only gives no answer. NCCL has a pipe of its own if the user has set `TORCH_NCCL_DEBUG_INFO_PIPE_FILE`.
torch's monitor checks that pipe once a second, and writes the file in place, with Python's frames, for which it needs
Python's lock as well. So this pipe is used only if the hook does not listen.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from worldsize.agent.posix.processes import variable
from worldsize.common.atomic_files import Descriptor
from worldsize.common.named_tuple import NamedTuple, TypeAlias
from worldsize.wings.hangs.agent.rank_pythons import state_of
from worldsize.wings.hangs.judgement.recorder.flight_recorder import Dump, merged_dumps, read_dump_file

SECONDS = 3.0
"""The maximum number of seconds for the dumps of all ranks together."""

NCCL_FILES = "nccl-rank-"
"""The prefix of the names of the files, in the ranks' directory, that NCCL's own dumps are written to
(`inrank.recorder`)."""

_LOOK = 0.02
_PIPE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_FILE_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


class DumpAnswer(NamedTuple):
    """The answer of a rank. `path` is the file of its dump; "" if there is none, for the reason `problem`. `taken` is
    in Unix seconds. `nccl` is the file of the additional dump that NCCL's recorder has made; "" if there is none."""

    path: str
    taken: float
    problem: str
    nccl: str = ""


Look: TypeAlias = "Callable[[], tuple[str, str]]"
"""Function that returns the files of a dump, as `path` and `nccl` of its answer, once they are complete. Before that it
returns no path."""


def ask_recorders(pids: Mapping[int, int], directory: str, seconds: float = SECONDS) -> dict[int, DumpAnswer]:
    """Request a dump of the Flight Recorder from each rank's Python in `pids` (rank to process ID), and return the
    answers by rank, within `seconds`. Raise nothing.

    `directory` is the directory in which the hook in the ranks opens their files.
    """
    answers: dict[int, DumpAnswer] = {}
    waiting: dict[int, Look] = {}
    deadline = time.monotonic() + seconds
    for rank, pid in pids.items():
        look, problem = _ask(rank, pid, directory)
        if problem:
            answers[rank] = DumpAnswer("", time.time(), problem)
        else:
            waiting[rank] = look
    while waiting and time.monotonic() < deadline:
        for rank, look in list(waiting.items()):
            path, nccl = look()
            if path:
                answers[rank] = DumpAnswer(path, time.time(), "", nccl)
                del waiting[rank]
        if waiting:
            time.sleep(_LOOK)
    for rank in waiting:
        answers[rank] = DumpAnswer("", time.time(), "the rank did not answer: Python's lock may be held")
    return answers


def read_answer(rank: int, answer: DumpAnswer) -> Dump:
    """Return the rank's Flight Recorder dump, read from the files in `answer`, with a fault if there is none. Reading
    may wait for a file server. Raise nothing."""
    if answer.problem:
        return Dump(rank, (), {}, False, None, f"is missing ({answer.problem})")
    dump = read_dump_file(answer.path, rank, answer.taken)
    return merged_dumps(dump, read_dump_file(answer.nccl, rank, answer.taken)) if answer.nccl else dump


def _ask(rank: int, pid: int, directory: str) -> tuple[Look, str]:
    """Send the request for a Flight Recorder dump to a rank's process. Return the function that looks for the dump, and
    the reason why no request was sent; "" if it was."""
    base = os.path.join(directory, f"rank-{rank:05d}")
    if state_of(pid) == "D":  # reading its memory may wait, too
        return _Answered(base).find, "the rank waits in the kernel"
    own = f"{os.path.basename(base)}.{pid}.recorder (deleted)"
    begin = variable(pid, _PIPE_VARIABLE)
    of_nccl = f"{os.path.basename(begin)}{rank}.pipe"
    pipes = {os.path.basename(path): number for number, path in _descriptors(pid)}  # paths in any mount namespace
    if own in pipes:
        _forget(f"{base}.dump")
        _forget(f"{base}.nccl.dump")
        return _Answered(base).find, _write_to(pid, pipes[own])
    number = pipes.get(of_nccl) or pipes.get(f"{of_nccl} (deleted)")
    if not begin or number is None:
        return _Answered(base).find, "the rank has no recorder that responds"
    begins = [variable(pid, each) for each in _FILE_VARIABLES] + [os.path.join(directory, NCCL_FILES)]
    look = _WholeFile(rank, [f"{begin}{rank}" for begin in begins if begin])
    return look.find, _write_to(pid, number)


class _Answered:
    """The search for the files that the hook writes: each complete, that of NCCL's recorder first."""

    def __init__(self, base: str) -> None:
        self._path = base + ".dump"
        self._nccl = base + ".nccl.dump"

    def find(self) -> tuple[str, str]:
        if not os.path.exists(self._path):
            return "", ""
        return self._path, self._nccl if os.path.exists(self._nccl) else ""


class _WholeFile:
    """The search for the first of several files that has changed and is complete, since torch writes it in place."""

    def __init__(self, rank: int, files: Iterable[str]) -> None:
        self._rank = rank
        self._before = {file: _state_of(file) for file in files}
        self._seen: dict[str, tuple[int, ...]] = {}

    def find(self) -> tuple[str, str]:
        for file, before in self._before.items():
            now = _state_of(file)
            if now != before and now == self._seen.get(file) and not read_dump_file(file, self._rank).fault:
                return file, ""
            self._seen[file] = now
        return "", ""


def _state_of(path: str) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _forget(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # there was no dump before


def _write_to(pid: int, number: str) -> str:
    """Write a request to the pipe that is the descriptor `number` of the process `pid`, without waiting. Return the
    reason if it could not be written; "" otherwise."""
    try:
        with Descriptor(os.open(f"/proc/{pid}/fd/{number}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as pipe:
            os.write(pipe, b"\n")
    except OSError as error:
        return f"the pipe to it: {error.strerror}"
    return ""


def _descriptors(pid: int) -> Iterator[tuple[str, str]]:
    """Yield the number and the link target of each open file of the process `pid`; nothing if this process may not read
    them."""
    folder = f"/proc/{pid}/fd"
    try:
        for number in os.listdir(folder):
            try:
                yield number, os.readlink(f"{folder}/{number}")
            except FileNotFoundError:
                continue
    except OSError:
        return
