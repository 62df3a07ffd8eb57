"""The standard streams of a step's tasks: where their output goes, and what they read.

Output that would go into the batch script's own output goes into the log of the task's rank instead, without a pipe in
between. Output that goes into a file (`srun … >file`, `--output`) is passed on line by line, and is kept in that log
too. Output that goes to another program (`$(srun …)`, `srun … | tee`) is passed on and not kept in the log.
"""

from __future__ import annotations

import errno
import os
import re
import stat

from worldsize.common.atomic_files import open_log, write_all
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.common.umask import Umask
from worldsize.plan.run_paths import RunPaths
from worldsize.trust.owners import is_believed
from worldsize.wings.batch_scripts.agent.task_environment import Step, StepTask

_FIELD = re.compile(r"%([0-9]*)([AaJjNnstux%])")
_WIDEST = 10
"""The maximum number of digits to which srun pads a number."""

_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 20


class OutputFiles:
    """Files that several tasks may share, each opened once. They belong to the user and are created with the user's
    `umask`."""

    def __init__(self, append: bool, umask: int) -> None:
        self._umask = umask
        self._flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if append else os.O_TRUNC)
        self._open: dict[str, int] = {}

    def open(self, path: str) -> int:
        """Open the output file at `path` for writing and return its descriptor; if it is open already, return that
        descriptor. A link of another user is not followed. Raise OSError."""
        if path not in self._open:
            with Umask(self._umask):
                self._open[path] = self._open_file(path)
        return self._open[path]

    def _open_file(self, path: str) -> int:
        try:
            return os.open(path, self._flags | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            if error.errno != errno.ELOOP or not is_believed(os.lstat(path).st_uid):
                raise
            return os.open(path, self._flags, 0o666)


def file_name(pattern: str, step: Step, task: StepTask, environ: dict[str, str]) -> str:
    """Return the file name that srun makes from `pattern`, such as `log-%j-%3t.out`: its fields are replaced by the
    numbers and names of the step and the task."""
    job = environ.get("SLURM_JOB_ID", "0")
    values = {
        "A": environ.get("SLURM_ARRAY_JOB_ID", job), "a": environ.get("SLURM_ARRAY_TASK_ID", "4294967294"),
        "J": f"{job}.{step.number}", "j": job, "N": task.host, "n": str(task.place), "s": str(step.number),
        "t": str(task.number), "u": environ.get("SLURM_JOB_USER", ""), "x": environ.get("SLURM_JOB_NAME", ""),
    }  # fmt: skip

    def field_text(field: re.Match[str]) -> str:
        width, letter = field.groups()
        if letter == "%":
            return "%"
        value = values[letter]
        return value.zfill(min(_WIDEST, parse_digits(width) or _WIDEST)) if width and value.isdigit() else value

    return pattern.replace("\\", "") if "\\" in pattern else _FIELD.sub(field_text, pattern)


def output_target(step: Step, task: StepTask, name: str, own: int, files: OutputFiles, to_log: bool) -> int | None:
    """Return the descriptor to which one output stream of a step's task goes in addition to the rank's log; None if it
    goes nowhere else.

    `name` is the stream ("output" or "error"), and `own` the descriptor of srun's own stream of that name. `to_log` is
    whether srun's own stream is the batch script's output, which the rank's log replaces. Raise OSError.
    """
    options = step.srun.options
    pattern = options.get(name)
    if pattern is None and name == "error" and options.get("output") not in (None, "all"):
        pattern = options["output"]
    only = parse_digits(pattern)
    if pattern == "none" or (only is not None and only != task.number):
        return None
    if pattern is None or pattern == "all" or only is not None:
        return None if to_log else own
    return files.open(file_name(pattern, step, task, dict(os.environ)))


class OutputRelay:
    """A stream of a task, read from the pipe `fd` and written `to` another descriptor by whole lines, each after the
    `label`. It owns `fd`, and `log` if there is one."""

    def __init__(self, fd: int, log: int | None, to: int | None, label: bytes) -> None:
        self.fd = fd
        self._log = log
        self._to = to
        self._label = label
        self._rest = b""

    def read(self) -> bool:
        """Read the available output of the task from the pipe and write its complete lines to the log and the other
        descriptor. Return False at the end of the stream."""
        data = os.read(self.fd, _CHUNK)
        lines, newline, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest
        if newline:
            self._write(lines + newline)
        if not data or len(rest) > _LONGEST_LINE:
            self._write(self._rest + (b"\n" if self._rest and self._label else b""))
            self._rest = b""
        return bool(data)

    def close(self) -> None:
        os.close(self.fd)
        if self._log is not None:
            os.close(self._log)

    def _write(self, data: bytes) -> None:
        if not data:
            return
        if self._log is not None:
            write_all(self._log, data)
        if self._to is None:
            return
        if self._label:
            data = b"".join(self._label + line for line in data.splitlines(keepends=True))
        try:
            write_all(self._to, data)
        except BrokenPipeError:
            self._to = None  # no process reads it any more: `srun … | head`


class TaskStreams(NamedTuple):
    """The three standard streams of a task, as descriptors of this process, which must be closed once the task is
    started. `relays` read the task's output."""

    stdin: int
    stdout: int
    stderr: int
    relays: tuple[OutputRelay, ...]

    def close(self) -> None:
        for fd in {self.stdin, self.stdout, self.stderr} - {0, 1, 2}:
            os.close(fd)


class StreamOpener:
    """The opener of the streams of each task. srun's standard input goes to all tasks or to one of them, or files
    replace it. Opening may raise OSError."""

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
        self._input = self._input or _copy_input()
        return os.open(self._input, os.O_RDONLY)


def _copy_input() -> str:
    """Copy all of srun's standard input into a file, which several tasks can each read from its beginning. Return its
    path."""
    import shutil
    import tempfile

    with tempfile.NamedTemporaryFile(dir=os.environ.get("WORLDSIZE_RUN_DIR"), delete=False) as copy:
        with open(0, "rb", closefd=False) as given:
            shutil.copyfileobj(given, copy)
        return copy.name


def _is_kept_elsewhere(fd: int) -> bool:
    """Return whether a descriptor leads to another program or device, not to a regular file."""
    return not stat.S_ISREG(os.fstat(fd).st_mode)


def _is_file(fd: int, path: str) -> bool:
    """Return whether a descriptor is open on exactly the file at `path`; False if the descriptor is closed."""
    try:
        mine, other = os.fstat(fd), os.stat(path)
    except OSError:
        return False
    if stat.S_ISCHR(mine.st_mode):
        return mine.st_rdev == other.st_rdev
    return (mine.st_dev, mine.st_ino) == (other.st_dev, other.st_ino)
