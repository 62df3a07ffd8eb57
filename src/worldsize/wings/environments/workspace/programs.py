"""The programs of a build. Their output goes to the build's log, and its last lines into the error."""

from __future__ import annotations

import signal
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from worldsize.agent.posix.processes import signal_group
from worldsize.common.child_termination import terminate_child
from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import BuildError
from worldsize.plan.setup_script import FAILED_MARK, MODULE_LINES, bash_command, module_line
from worldsize.state.exit_records import signal_name
from worldsize.wings.environments.workspace.builder import Build, replaced_signal_handlers

_SHOWN = 12
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE = 3.0
_DISK_FULL_MESSAGES = ("No space left on device", "Disk quota exceeded")
_ACTIVE_VARIABLES = (
    "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONHOME", "PYTHONPATH", "UV_PROJECT_ENVIRONMENT",
    "PIP_REQUIRE_VIRTUALENV", "PIP_USER",
)  # fmt: skip
"""Variables of an activated environment, which is not the one being built."""

LineCallback = Callable[[str], None]
"""Function that receives an unmasked line. It must mask what it passes on, as `Build.report_progress` does."""


class ProgramResult(NamedTuple):
    """The result of a program: its exit code, its standard output, and the last lines of its standard error."""

    code: int
    out: str
    last: tuple[str, ...]


def without_active_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables `environ` without those of an activated virtual or conda environment, such as VIRTUAL_ENV
    and PYTHONPATH."""
    return {name: value for name, value in environ.items() if name not in _ACTIVE_VARIABLES}


def run(
    work: Build,
    argv: Sequence[str],
    environ: Mapping[str, str],
    what: str,
    on_line: LineCallback = lambda line: None,
    cwd: str | None = None,
    logged: bool = True,
) -> str:
    """Execute the command `argv` of an environment's build, and return its standard output. `on_line` receives each
    line of its standard error as it arrives. Raise BuildError, with the last lines and the path of the complete log, if
    the program fails or cannot be executed."""
    ended = execute(work, argv, environ, what, on_line, cwd, logged=logged)
    if ended.code:
        raise BuildError(
            f"{what} {exit_text(ended.code)}{_last_lines_text(ended.last)}", None, failure_hint(work, ended)
        )
    return ended.out


def execute(
    work: Build,
    argv: Sequence[str],
    environ: Mapping[str, str],
    what: str,
    on_line: LineCallback = lambda line: None,
    cwd: str | None = None,
    order: str | None = None,
    logged: bool = True,
) -> ProgramResult:
    """Execute the command `argv` of an environment's build, and return its exit code, standard output and last error
    lines, for any exit code. `order` is its standard input. With an `order`, the output is data and is not logged;
    otherwise it is logged if `logged` is true. Raise BuildError if the program cannot be executed.

    A stop signal that this process receives while it starts the program is held and raised again afterwards. Otherwise
    the program would be left behind. It is not enough to block the signals, since another thread receives them, and
    Python still calls the handlers here.
    """
    process: subprocess.Popen[str] | None = None
    held: list[int] = []
    try:
        with replaced_signal_handlers(_STOP_SIGNALS, lambda number, _: held.append(number), callable):
            try:
                process = _start(work, argv, environ, cwd, order is not None)
            except OSError as error:
                raise BuildError(f"{what}: {argv[0]} cannot be executed: {error.strerror}") from None
        for number in held:
            signal.raise_signal(number)
        out, last = _read_streams(process, work, on_line, order, logged)
    except BaseException:  # also for a signal right after the start
        if process is not None:
            with process:
                _terminate(process)
        raise
    with process:
        process.wait()
    return ProgramResult(process.returncode, out, tuple(last))


def _start(
    work: Build, argv: Sequence[str], environ: Mapping[str, str], cwd: str | None, ordered: bool
) -> subprocess.Popen[str]:
    """Start the program `argv` of a build in a session of its own, so that it can be stopped with all processes that it
    starts. It inherits the build's lock. Raise OSError."""
    return subprocess.Popen(
        list(argv),
        env=dict(environ),
        cwd=cwd or work.prefix,
        stdin=subprocess.PIPE if ordered else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=work.inherit,
        start_new_session=True,
        encoding="utf-8",
        errors="replace",
    )


def _read_streams(
    process: subprocess.Popen[str], work: Build, on_line: LineCallback, order: str | None, logged: bool
) -> tuple[str, deque[str]]:
    """Write `order` to the program's standard input, and read both of its output streams at the same time, so that
    neither blocks. Return the standard output, and the last lines of the standard error."""
    from threading import Thread

    assert process.stdout is not None and process.stderr is not None
    if process.stdin is not None:
        process.stdin.write(order or "")
        process.stdin.close()
    last: deque[str] = deque(maxlen=_SHOWN)
    out: list[str] = []
    stream = process.stdout
    reader = Thread(target=lambda: out.append(stream.read()), daemon=True)
    reader.start()
    with open(work.log_path, "a", encoding="utf-8", errors="backslashreplace") as log:
        for line in process.stderr:
            text = work.mask(line.rstrip("\n"))
            log.write(text + "\n")
            log.flush()
            last.append(text)
            on_line(line.rstrip("\n"))
        reader.join()
        if order is None and logged:
            log.write(work.mask(out[0]))
    return out[0], last


def _terminate(process: subprocess.Popen[str]) -> None:
    """Stop the program `process` of a build, and all processes that it has started, such as compilers. If a signal
    arrives meanwhile, kill them at once."""
    try:
        terminate_child(process, partial(signal_group, process.pid), _GRACE)
    finally:
        signal_group(process.pid, signal.SIGKILL)


def run_bash(
    work: Build,
    lines: Sequence[str],
    environ: Mapping[str, str],
    what: str,
    cwd: str | None = None,
    on_line: LineCallback = lambda line: None,
) -> str:
    """Execute lines of bash in a build, each of which must succeed, and return their output on descriptor 3. Their
    output on the other streams goes to the log. The lines can use `module` as in a login shell. Raise BuildError."""
    wanted = any("module " in line for line in lines)
    script = [
        "exec 3>&1 1>&2",
        *(MODULE_LINES if wanted else ()),
        f"trap 'code=$?; echo \"{FAILED_MARK} with code $code: $BASH_COMMAND\" >&2; exit $code' ERR",
        *lines,
    ]
    argv, variable = bash_command(script)
    return run(work, argv, {**environ, **variable}, what, on_line, cwd, logged=False)


def environ_after_modules(work: Build, modules: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Load the environment modules `modules` (`module load`), and return the environment variables that result. Raise
    BuildError with the name of the module that cannot be loaded."""
    if not modules:
        return dict(environ)
    work.report_step(f"loading modules: {', '.join(modules)}")
    return environ_after(work, [module_line(module) for module in modules], environ, "loading modules")


def environ_after(work: Build, lines: Sequence[str], environ: Mapping[str, str], what: str) -> dict[str, str]:
    """Execute lines of bash, and return the environment variables that result. Raise BuildError."""
    found = run_bash(work, [*lines, "env -0 >&3"], environ, what)
    entries = [entry.partition("=") for entry in found.split("\0") if "=" in entry]
    return {name: value for name, _, value in entries}


def exit_text(code: int) -> str:
    name = signal_name(128 - code) if code < 0 else None
    return f"was killed by signal {-code} ({name})" if name else f"failed with code {code}"


def failure_hint(work: Build, ended: ProgramResult) -> str:
    """Return the hint for a failed program of a build: the path of the complete log, and advice if the exit code or the
    last lines show that memory or disk space was short."""
    found = f"full log: {work.log_path}"
    if ended.code in (-signal.SIGKILL, 128 + signal.SIGKILL):
        found += "; was memory short here? build_on: compute runs build steps on a node"
    if any(each in line for line in ended.last for each in _DISK_FULL_MESSAGES):
        found += "; the disk is full: worldsize env gc frees space, and envs_dir names another"
    return found


def _last_lines_text(last: Sequence[str]) -> str:
    return ":\n  " + "\n  ".join(line for line in last if line.strip()) if last else ""
