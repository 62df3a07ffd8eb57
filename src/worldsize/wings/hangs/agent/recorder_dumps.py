"""Dumps of PyTorch's Flight Recorder that ranks write when they are asked through a pipe.

The pipe of the hook in the ranks (`inrank.recorder`) has no name any more: it is opened by the rank's own descriptor.
So no other process can be asked by mistake, and a rank that has closed it, or holds Python's lock elsewhere, only gives
no answer. NCCL has a pipe of its own where the user has set `TORCH_NCCL_DEBUG_INFO_PIPE_FILE`: torch's monitor looks at
it once a second, and writes the file in place, with Python's frames, for which it needs Python's lock as well. So it is
asked only where the hook does not listen.
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
"""The most that all ranks together may take to write."""

NCCL_FILES = "nccl-rank-"
"""How the names of the files begin, in the ranks' directory, that NCCL's own dumps go to (`inrank.recorder`)."""

_LOOK = 0.02
_PIPE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
_FILE_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


class DumpAnswer(NamedTuple):
    """The file of a rank's dump, "" where `problem` says why there is none. taken: Unix seconds. nccl: the file of the
    dump that NCCL's recorder has made beside it; "" where there is none."""

    path: str
    taken: float
    problem: str
    nccl: str = ""


Look: TypeAlias = "Callable[[], tuple[str, str]]"
"""Gives the files of a dump, as `path` and `nccl` of its answer, once they are whole; no path before that."""


def ask_recorders(pids: Mapping[int, int], directory: str, seconds: float = SECONDS) -> dict[int, DumpAnswer]:
    """By rank, its dump. Takes `seconds` at most, and raises nothing.

    pids       by rank, its own Python
    directory  where the hook in the ranks opens their files
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
    """Return the rank's dump, with a fault where there is none. Reading may wait for a file server; raises nothing."""
    if answer.problem:
        return Dump(rank, (), {}, False, None, f"is missing ({answer.problem})")
    dump = read_dump_file(answer.path, rank, answer.taken)
    return merged_dumps(dump, read_dump_file(answer.nccl, rank, answer.taken)) if answer.nccl else dump


def _ask(rank: int, pid: int, directory: str) -> tuple[Look, str]:
    """Ask the rank: how to look for its dump, and why it could not be asked, or ""."""
    base = os.path.join(directory, f"rank-{rank:05d}")
    if state_of(pid) == "D":  # reading its memory may wait, too
        return _Answered(base).find, "the rank waits in the kernel"
    own = f"{os.path.basename(base)}.{pid}.recorder (deleted)"
    begin = variable(pid, _PIPE_VARIABLE)
    of_nccl = f"{os.path.basename(begin)}{rank}.pipe"
    pipes = {os.path.basename(path): number for number, path in _descriptors(pid)}  # paths as seen from anywhere
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
    """Looks for what the hook writes: each file whole, the one of NCCL's recorder first."""

    def __init__(self, base: str) -> None:
        self._path = base + ".dump"
        self._nccl = base + ".nccl.dump"

    def find(self) -> tuple[str, str]:
        if not os.path.exists(self._path):
            return "", ""
        return self._path, self._nccl if os.path.exists(self._nccl) else ""


class _WholeFile:
    """Looks for the first of several files that has changed and is whole: torch writes it in place."""

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
        pass  # it is the first time


def _write_to(pid: int, number: str) -> str:
    """Why the pipe could not be written to; "" where it has been. Waits for nobody."""
    try:
        with Descriptor(os.open(f"/proc/{pid}/fd/{number}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)) as pipe:
            os.write(pipe, b"\n")
    except OSError as error:
        return f"the pipe to it: {error.strerror}"
    return ""


def _descriptors(pid: int) -> Iterator[tuple[str, str]]:
    """Yield the process's open files, by number, as links name them; none where this one may not look."""
    folder = f"/proc/{pid}/fd"
    try:
        for number in os.listdir(folder):
            try:
                yield number, os.readlink(f"{folder}/{number}")
            except FileNotFoundError:
                continue
    except OSError:
        return
