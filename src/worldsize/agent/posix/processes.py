"""Process trees on POSIX: functions that start a rank, signal its group, and find and end the processes that it left
behind.

Every rank leads its own session. The agent (and a local run's conductor) is a child subreaper: a process that leaves
its group or session still becomes a child of the agent when its parent ends, and can be found and ended.
"""

from __future__ import annotations

import _ctypes  # ctypes would only wrap it here, and takes 2 ms of every start
import errno
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from worldsize.agent.posix.signals import NOTICES
from worldsize.common.atomic_files import Descriptor, open_log, read_if_possible
from worldsize.common.named_tuple import Any
from worldsize.common.umask import Umask

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
RESET_SIGNALS = (
    signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGQUIT,
    *NOTICES,
)  # fmt: skip
"""Signals that Python or the agent ignores or catches. They are reset for a rank to their state in a login shell."""

TERMINAL = (3, 4, 5)
"""The descriptors at which the conductor and the agent of a plan with a `terminal` have the streams that its rank gets
as 0, 1 and 2."""

HELPER_OF = "WORLDSIZE_HELPER_OF"
"""The environment variable of a helper that contains the pid of the agent that started it."""


def become_subreaper() -> None:
    """Make orphaned descendants children of this process from now on (Linux). On other systems do nothing."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def end_with_parent(number: int) -> None:
    """Request the kernel to send this process the signal `number` when its parent, or the thread of the parent that has
    forked it, ends (Linux). On other systems do nothing. 0 withdraws the request."""
    _prctl(_PR_SET_PDEATHSIG, number)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl")  # type: ignore[arg-type]
        _ctypes.call_function(prctl, (option, int(value), 0, 0, 0))


def find_program(name: str, environment: Mapping[str, str]) -> str:
    """Return the path of the program `name` as a rank with this environment would find it.

    Raise FileNotFoundError if there is none; raise PermissionError if it exists and cannot be executed.
    """
    # os.get_exec_path takes ten times as long, because it suppresses Python's warnings about a PATH in bytes.
    directories = [""] if os.sep in name else environment.get("PATH", os.defpath).split(os.pathsep)
    refused: OSError = FileNotFoundError(errno.ENOENT, "no such file" if os.sep in name else "command not found")
    for directory in directories:
        path = os.path.join(directory, name)
        if os.path.isfile(path):
            if os.access(path, os.X_OK):
                return path
            refused = PermissionError(errno.EACCES, "cannot be executed (is it `chmod +x`?)")
    raise refused


def spawn(
    program: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    log: str,
    held: Iterable[int] = (),
    umask: int | None = None,
    stdin: int | None = None,
    terminal: bool = False,
    inherited: Mapping[int, int] = {},
) -> int:
    """Start `program` in a new session. Its stdout and stderr go directly into `log`; its stdin is the open file
    `stdin`, or empty. Return its pid.

    There is no pipe between a rank and its file, so nothing that this process does can block the rank, and its last
    output arrives. The signals `held` are blocked in the program. `umask` is the umask of the program, not of the log;
    None means this process's own. If it is given, no other thread of this process may create files meanwhile.
    `inherited` contains open files of this process that the program gets, with the numbers that they have there, which
    are greater than all numbers that are open here. Raise OSError if the program or the log cannot be opened.

    With `terminal` the program's streams are `TERMINAL`, there is no log, and the program leads a process group in this
    process's session, so that a terminal can make this group its foreground group.
    """
    if terminal:
        actions = [(os.POSIX_SPAWN_DUP2, file, number) for number, file in enumerate(TERMINAL)]
        return _spawn(program, argv, environment, actions, held, umask, setpgroup=0)
    out = move_above_standard(open_log(log))
    nothing = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
    streams = [
        (os.POSIX_SPAWN_DUP2, out, 1),
        (os.POSIX_SPAWN_DUP2, 1, 2),
        nothing if stdin is None else (os.POSIX_SPAWN_DUP2, stdin, 0),
        *((os.POSIX_SPAWN_DUP2, file, number) for file, number in inherited.items()),
    ]
    try:
        return _spawn(program, argv, environment, streams, held, umask, setsid=True)
    finally:
        os.close(out)


def _spawn(
    program: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    actions: Sequence[tuple[Any, ...]],
    held: Iterable[int],
    umask: int | None,
    **place: Any,
) -> int:
    with Umask(umask):
        return os.posix_spawn(
            program,
            tuple(argv),
            environment,
            file_actions=actions,
            setsigmask=held,
            setsigdef=RESET_SIGNALS,
            **place,
        )


def close_terminal_at_exec() -> None:
    """Prevent the programs that this process starts from inheriting the descriptors `TERMINAL`, which have the streams
    for a run's only rank, unless they are passed explicitly."""
    for file in TERMINAL:
        os.set_inheritable(file, False)


def spawn_helper(
    program: str, argv: Sequence[str], environment: Mapping[str, str], log: str, stdin: int | None = None
) -> int:
    """Start a helper, a process of the agent next to the ranks, as `spawn` does, and return its pid. A variable in its
    environment contains the agent's pid, by which `is_helper` distinguishes it from ranks."""
    return spawn(program, argv, {**environment, HELPER_OF: str(os.getpid())}, log, stdin=stdin)


def is_helper(pid: int) -> bool:
    """Return whether the process was started by this process with `spawn_helper`, or descends from such a process. The
    environment of the process, or of a process between the two, shows it."""
    us = os.getpid()
    while pid not in (0, us):
        if variable(pid, HELPER_OF) == str(us):
            return True
        fields = stat_fields(pid)
        pid = int(fields[1]) if fields is not None else 0
    return False


def move_above_standard(file: int) -> int:
    """Return a descriptor of the same open file with a number above the standard three: `file` itself, or a duplicate,
    after which `file` is closed. A number that is duplicated to itself when a program starts would be closed."""
    if file > 2:
        return file
    moved = move_above_standard(os.dup(file))
    os.close(file)
    return moved


class CpuBinding:
    """A context in which processes are started on `cpus` only; on all CPUs of this process if `cpus` is empty.
    contextlib would take 0.4 ms of every start."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self._cpus = cpus
        self._before: set[int] = set()

    def __enter__(self) -> None:
        if self._cpus:
            self._before = os.sched_getaffinity(0)
            os.sched_setaffinity(0, self._cpus)

    def __exit__(self, *_: object) -> None:
        if self._cpus:
            os.sched_setaffinity(0, self._before)


def exit_code(status: int) -> int:
    """Return the exit code for a wait status as shells report it: the exit code, or 128+N for signal N."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def reap() -> Iterator[tuple[int, int]]:
    """Reap every child of this process that has ended by now, without waiting, and yield (pid, exit code) for each; the
    code is 128+N for signal N."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, exit_code(status)


def has_ended(child: int) -> bool:
    """Return whether the child process with the pid `child` has ended. It is not reaped."""
    fields = stat_fields(child)
    return fields is None or fields[0] in b"ZX"


def newly_stopped_children() -> Iterator[int]:
    """Yield the pids of the children of this process that were stopped (SIGSTOP) since the last call."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG)
        except ChildProcessError:
            return
        if found is None:
            return
        yield found.si_pid


def is_stopped(pid: int) -> bool:
    fields = stat_fields(pid)
    return fields is not None and fields[0] == b"T"


def signal_group(leader: int, number: int) -> None:
    """Send the signal `number` to the process group of `leader`, if any process of the group is left. Then continue the
    group with SIGCONT, so that TERM arrives; not after KILL."""
    for each in (number,) if number == signal.SIGKILL else (number, signal.SIGCONT):
        try:
            os.killpg(leader, each)
        except (ProcessLookupError, PermissionError):  # as in `signal_process`
            return


def signal_process(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # it has ended, or another user has its pid
        pass


def children() -> list[int]:
    """Return the pids of the living children of this process, including adopted orphans. Zombies are included until
    they are reaped."""
    return _children(os.getpid())


def descendants() -> list[int]:
    """Return the pids of all descendants of this process, parents before children."""
    return trees(children())


def trees(roots: Iterable[int]) -> list[int]:
    """Return the pids `roots` and those of all their descendant processes, parents before children."""
    found: list[int] = []
    front = list(roots)
    while front:
        found += front
        front = [child for parent in front for child in _children(parent)]
    return found


def _children(pid: int) -> list[int]:
    """Return the pids of the children of all threads of the process `pid`. Only this process's own tree is read,
    because there may be hundreds of agents on a machine."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            found += map(int, _whole_file(f"/proc/{pid}/task/{thread}/children").split())
        except FileNotFoundError:
            if not os.path.exists("/proc/thread-self/children"):  # in some sandboxes; kernels of distributions have it
                return _children_by_parent(pid)
        except OSError:
            continue
    return found


def _whole_file(path: str) -> bytes:
    """Return the contents of a file of /proc as bytes. The file is read without a file object, which would take longer
    than the reading. Raise OSError."""
    with Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC)) as file:
        return b"".join(iter(lambda: os.read(file, 1 << 16), b""))


def _children_by_parent(pid: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if fields is not None and int(fields[1]) == pid:
                found.append(int(name))
    return found


def stat_fields(pid: int) -> list[bytes] | None:
    """Return the fields of /proc/PID/stat after the command, as bytes: [state, ppid, pgrp, …]; None if there is no such
    process."""
    return read_if_possible(f"/proc/{pid}/stat").rpartition(b") ")[2].split() or None


def command_line(pid: int) -> tuple[str, ...]:
    """Return the words of a process's command line; none if the process has ended."""
    return tuple(_read(pid, "cmdline").split("\0")[:-1])


def variable(pid: int, name: str) -> str:
    """Return the value of the environment variable `name` of the process `pid`, as it was when the process executed its
    program; "" if it is not set or cannot be read."""
    values = _read(pid, "environ").split("\0")
    return next((value[len(name) + 1 :] for value in values if value.startswith(name + "=")), "")


def _read(pid: int, name: str) -> str:
    return read_if_possible(f"/proc/{pid}/{name}").decode("utf-8", "replace")


def start_time(pid: int) -> int | None:
    """Return the time at which a living process started, in clock ticks since boot; None for a process that has ended.
    The pid and the start time together identify a process."""
    fields = stat_fields(pid)
    return None if fields is None or fields[0] in b"ZX" else int(fields[19])


def host_name() -> str:
    """Return this machine's host name, the same as `socket.gethostname()`. The module `socket` makes enums of its
    constants, which takes 1 ms of every start."""
    return os.uname().nodename


def local_handle(pid: int, run_id: str, run_dir: str) -> dict[str, Any]:
    """Return the handle (native id) of a local run, by which other processes find and signal the process `pid` of this
    machine that runs it: a dictionary with the pid, its start time, the host, the run's id and directory. It is the
    same for every process that writes it."""
    return {
        "type": "local",
        "pid": pid,
        "start_time": start_time(pid),
        "host": host_name(),
        "run_id": run_id,
        "run_dir": run_dir,
    }
