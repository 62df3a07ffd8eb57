"""Starting the tasks of a step: program, environment, streams."""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Mapping

from worldsize.agent.posix import processes
from worldsize.common.atomic_files import open_log
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.batch_scripts.agent.task_environment import Step, StepTask
from worldsize.wings.batch_scripts.agent.task_output import OutputFiles, OutputRelay, file_name, output_target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class TaskStreams(NamedTuple):
    """A task's three, as descriptors of ours: to be closed once it is started. `relays` read what it writes."""

    stdin: int
    stdout: int
    stderr: int
    relays: tuple[OutputRelay, ...]

    def close(self) -> None:
        for fd in {self.stdin, self.stdout, self.stderr} - {0, 1, 2}:
            os.close(fd)


class StreamOpener:
    """Opens the streams of each task. srun's standard input goes to all tasks, to one of them, or is replaced by files.
    Raises OSError."""

    def __init__(self, step: Step, paths: RunPaths) -> None:
        self._step = step
        self._paths = paths
        batch_log = os.environ.get("WORLDSIZE_BATCH_LOG", "")
        self._to_log = {fd: _is_file(fd, batch_log) for fd in (1, 2)}
        self._files = OutputFiles(step.srun.options.get("open-mode", "") in ("a", "append"), step.umask)
        self._input = ""

    def open(self, task: StepTask) -> TaskStreams:
        log = open_log(self._paths.rank_log(task.rank))
        relays: list[OutputRelay] = []
        stdout = self._open_output(task, "output", 1, log, relays)
        stderr = self._open_output(task, "error", 2, log, relays)
        if log not in (stdout, stderr):
            os.close(log)
        return TaskStreams(self._open_input(task), stdout, stderr, tuple(relays))

    def close(self) -> None:
        if self._input:
            os.unlink(self._input)

    def _open_output(self, task: StepTask, name: str, own: int, log: int, relays: list[OutputRelay]) -> int:
        to = output_target(self._step, task, name, own, self._files, self._to_log[own])
        if to is None:
            return log
        width = len(str(self._step.size.total - 1))
        label = f"{task.number:{width}}: " if self._step.srun.flag("label") else ""
        reading, writing = os.pipe()
        relays.append(OutputRelay(reading, None if _is_kept_elsewhere(to) else os.dup(log), to, label.encode()))
        return writing

    def _open_input(self, task: StepTask) -> int:
        mode = self._step.srun.options.get("input") or "all"
        only = parse_digits(mode)
        if mode == "none" or (only is not None and only != task.number):
            return os.open(os.devnull, os.O_RDONLY)
        if mode != "all" and only is None:
            return os.open(file_name(mode, self._step, task, dict(os.environ)), os.O_RDONLY)
        if only is not None or self._step.size.total == 1 or _is_file(0, os.devnull):
            return 0
        self._input = self._input or _copied_input()
        return os.open(self._input, os.O_RDONLY)


def _copied_input() -> str:
    """A file with all of what we are given, which each of several tasks reads from its beginning."""
    import shutil
    import tempfile

    with tempfile.NamedTemporaryFile(dir=os.environ.get("WORLDSIZE_RUN_DIR"), delete=False) as copy:
        with open(0, "rb", closefd=False) as given:
            shutil.copyfileobj(given, copy)
        return copy.name


def _is_kept_elsewhere(fd: int) -> bool:
    """Whether it leads to another program, or nowhere."""
    return not stat.S_ISREG(os.fstat(fd).st_mode)


def _is_file(fd: int, path: str) -> bool:
    """Whether a descriptor is open on this very file. A closed one is nowhere."""
    try:
        mine, other = os.fstat(fd), os.stat(path)
    except OSError:
        return False
    if stat.S_ISCHR(mine.st_mode):
        return mine.st_rdev == other.st_rdev
    return (mine.st_dev, mine.st_ino) == (other.st_dev, other.st_ino)


def spawn_task(argv: tuple[str, ...], environment: Mapping[str, str], streams: TaskStreams, umask: int) -> int:
    """The pid of the task, which finds it in SLURM_TASK_PID, leads a session of its own and has the `umask`.

    Raises OSError where it cannot be started.
    """
    program = processes.find_program(argv[0], environment)
    reading, writing = os.pipe()
    held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    with open(reading, "rb") as pipe:
        try:
            pid = os.fork()  # not posix_spawn: only the forked process knows its number before it executes the program
            if pid == 0:
                _execute(program, argv, environment, streams, umask, writing)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            os.close(writing)
        number = pipe.read()
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)), program)
    return pid


def _execute(
    program: str,
    argv: tuple[str, ...],
    environment: Mapping[str, str],
    streams: TaskStreams,
    umask: int,
    failed: int,
) -> NoReturn:
    """Become the task. `failed`: where the number of an error goes; it is closed once the program is executed."""
    try:
        os.setsid()
        os.umask(umask)
        # Copies first, so that none is overwritten before it is duplicated.
        copies = [os.dup(fd) for fd in (streams.stdin, streams.stdout, streams.stderr)]
        for number, fd in enumerate(copies):
            os.dup2(fd, number)
        for each in processes.RESET_SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(program, argv, {**environment, "SLURM_TASK_PID": str(os.getpid())})
    except (OSError, ValueError) as error:
        os.write(failed, b"%d" % (getattr(error, "errno", None) or errno.EINVAL))
    finally:
        os._exit(1)
