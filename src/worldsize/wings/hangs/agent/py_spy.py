"""The program py-spy: its location, and its output for many processes at once.

It reads another process's memory without stopping it (`--nonblocking`). The process that is read does not notice, and
py-spy can be stopped at any time. The kernel must allow it: the same user, no Yama beyond scope 1 (`inrank`), or
CAP_SYS_PTRACE.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence

from worldsize.agent.posix import processes
from worldsize.common.named_tuple import NamedTuple
from worldsize.trust.owners import danger_of
from worldsize.wings.hangs.agent.rank_pythons import state_of

PROGRAM = "py-spy"
SECONDS_EACH = 5.0
"""The maximum number of seconds for one process."""

MOST_AT_ONCE = 8
_ATTEMPTS = 3
"""The number of attempts for each process. A process that continues while it is read may be read in the middle of a
change."""

_MOST_BYTES = 8 << 20
_MOST_COMPLAINT = 200
_PIECE = 1 << 16
_HOPELESS = ("Permission denied", "not permitted", "No such ")


class Answer(NamedTuple):
    """The result of py-spy for one process: its output, or, if that is empty, the reason."""

    output: bytes
    problem: str


def find_py_spy(pids: Iterable[int]) -> str | None:
    """Return the path of py-spy, from the directory of the Python that executes this, from PATH, or from the PATH that
    one of the processes `pids` was started with. In the last case it must be a program that only this user and root can
    change, since the ranks' PATH may lead anywhere. None if it is in none of these."""
    own = [os.path.dirname(sys.executable), *os.environ.get("PATH", os.defpath).split(os.pathsep)]
    for folder in filter(os.path.isabs, own):
        path = os.path.join(folder, PROGRAM)
        if _is_program(path):
            return path
    asked: set[str] = set()
    for pid in pids:
        for folder in _folders_of(pid):
            if folder not in asked and os.path.isabs(folder):
                asked.add(folder)
                path = os.path.realpath(os.path.join(folder, PROGRAM))
                if _is_program(path) and _is_reliable(path):
                    return path
    return None


def _folders_of(pid: int) -> list[str]:
    if state_of(pid) == "D":  # reading its memory may wait, too
        return []
    try:
        beside = [os.path.dirname(os.readlink(f"/proc/{pid}/exe"))]
    except OSError:
        beside = []
    found = processes.variable(pid, "VIRTUAL_ENV"), processes.variable(pid, "CONDA_PREFIX")
    return [*processes.variable(pid, "PATH").split(os.pathsep), *(f"{each}/bin" for each in found if each), *beside]


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_reliable(path: str) -> bool:
    """Return whether only this user and root can change the file, or replace it."""
    try:
        return danger_of(os.stat(path), path) is None and danger_of(os.stat(os.path.dirname(path))) is None
    except OSError:
        return False


def ask_py_spy(program: str, pids: Sequence[int], deadline: float) -> dict[int, Answer]:
    """Return a mapping of each process ID in `pids` to the answer of py-spy (its stack dump or a problem). Several
    py-spy run at once, each for `SECONDS_EACH` at most, none after `deadline` (monotonic). Raise nothing."""
    answers: dict[int, Answer] = {}
    waiting = [(pid, 1) for pid in reversed(pids)]
    running: dict[int, _Question] = {}
    with selectors.DefaultSelector() as selector:
        while waiting or running:
            while waiting and len(running) < _at_once() and time.monotonic() < deadline:
                pid, attempt = waiting.pop()
                question = _Question(program, pid, attempt, deadline)
                if question.is_open():
                    running[pid] = question
                    selector.register(question.file, selectors.EVENT_READ, question)
                else:
                    answers[pid] = question.answer()
            if waiting and not running:
                answers.update((pid, Answer(b"", "there was no time left for py-spy")) for pid, _ in waiting)
                break
            pause = min((each.until for each in running.values()), default=0.0) - time.monotonic()
            ready = {key.data.pid for key, _ in selector.select(max(0.0, pause))} if running else set()
            for pid, question in list(running.items()):
                if pid in ready:
                    question.read()
                elif time.monotonic() >= question.until:
                    question.end(f"py-spy took more than {SECONDS_EACH:.0f} s")
                if not question.is_open():
                    selector.unregister(question.file)
                    del running[pid]
                    answers[pid] = question.answer()
                    if question.is_worth_another():
                        waiting.append((pid, question.attempt + 1))
                    question.close()
    return answers


def complaint(data: bytes) -> str:
    """Return the error message in py-spy's standard error `data`, with the last of the causes that it names, on one
    line. "" for none."""
    lines = data.decode("utf-8", "replace").partition("Stack backtrace:")[0].split("\n")
    told = [line.strip() for line in lines if line.strip() and line.strip() != "Caused by:"]
    if not told:
        return ""
    what = told[0][len("Error: ") :] if told[0].startswith("Error: ") else told[0]
    cause = re.sub(r"^\d+: ", "", told[-1])
    return (f"{what} ({cause})" if len(told) > 1 else what)[:_MOST_COMPLAINT]


def _at_once() -> int:
    return max(2, min(MOST_AT_ONCE, len(os.sched_getaffinity(0))))


class _Question:
    """A running py-spy for one process. `until` is the time at which it is stopped."""

    def __init__(self, program: str, pid: int, attempt: int, deadline: float) -> None:
        self.pid = pid
        self.attempt = attempt
        self.until = min(deadline, time.monotonic() + SECONDS_EACH)
        self.file = -1
        self._output = b""
        self._problem = ""
        self._is_open = False
        self._process: subprocess.Popen[bytes] | None = None
        argv = [program, "dump", "--nonblocking", "--json", "--pid", str(pid)]
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}
        if processes.HELPER_OF in os.environ:  # so that py-spy never counts as a process that a rank has left
            environment[processes.HELPER_OF] = os.environ[processes.HELPER_OF]
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd="/"
            )
        except OSError as error:
            self._problem = f"py-spy does not start: {error.strerror}"
            return
        assert self._process.stdout is not None
        self.file = self._process.stdout.fileno()
        self._is_open = True

    def is_open(self) -> bool:
        return self._process is not None and self._is_open

    def read(self) -> None:
        """Read the available output of py-spy. At the end of the output, wait for py-spy, and read its error message if
        it failed."""
        data = os.read(self.file, _PIECE)
        self._output += data
        if len(self._output) > _MOST_BYTES:
            self.end("py-spy's output is too long")
        elif not data:
            self._is_open = False
            self._finish()

    def _finish(self) -> None:
        """Wait for the end of py-spy, which has closed its output, and read its error message if it failed."""
        assert self._process is not None and self._process.stderr is not None
        try:
            code = self._process.wait(max(0.1, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.end("py-spy does not end")
            return
        if code or not self._output:
            os.set_blocking(self._process.stderr.fileno(), False)
            said = complaint(self._process.stderr.read(_PIECE) or b"")
            self._output, self._problem = b"", "py-spy: " + (said or f"it ended with code {code}")

    def end(self, problem: str) -> None:
        """Kill py-spy, and record `problem` as its answer. It may wait in the kernel for the other process's memory, so
        its end is not awaited."""
        assert self._process is not None
        self._process.kill()
        self._output, self._problem, self._is_open = b"", problem, False

    def answer(self) -> Answer:
        return Answer(self._output, self._problem)

    def is_worth_another(self) -> bool:
        return (
            not self._output
            and self.attempt < _ATTEMPTS
            and self._problem.startswith("py-spy: ")
            and not any(word in self._problem for word in _HOPELESS)
        )

    def close(self) -> None:
        assert self._process is not None and self._process.stdout is not None and self._process.stderr is not None
        self._process.stdout.close()
        self._process.stderr.close()
        self._process.poll()
