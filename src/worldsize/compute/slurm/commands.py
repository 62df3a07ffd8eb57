"""Functions that run Slurm's programs and classify their failures: retry later, rejected for good, or no Slurm on this
machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.errors import ConfigError, SubmitAgain
from worldsize.trust.procfs import PASSWORD_VARIABLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess


TIMEOUT = 30.0
"""Seconds to wait for the output of one program. Slurm's programs themselves try for MessageTimeout (10 s by default),
some of them several times."""

_IDLE_INTERVAL = 0.1
_OWN_UMASK = -1
"""Value of `umask` that keeps the umask of this process."""
_KEPT_VARIABLES = frozenset(("SLURM_CONF", "SLURM_JWT"))
_SCRUBBED_PREFIXES = (
    "SLURM", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SACCT_", "SINFO_", "SCANCEL_", "SCONTROL_", "PMI",
)  # fmt: skip


class ProgramOutput(NamedTuple):
    """The result of a program that ended. `code` is its exit code, or 128+N for signal N."""

    code: int
    out: str
    err: str


def clean_environ(environ: Mapping[str, str], program: str = "squeue") -> dict[str, str]:
    """Return a copy of `environ` in which the Slurm program `program` can run, without the variables that an outer
    allocation or a shell's start-up files have set.

    For programs that only query, the copy also requests plain texts, and times as Unix seconds (SLURM_TIME_FORMAT). Not
    for sbatch, since its environment becomes the job's.
    """
    stay = (name for name in environ if name in _KEPT_VARIABLES or not name.startswith(_SCRUBBED_PREFIXES))
    cleaned = {name: environ[name] for name in stay}
    cleaned.pop(PASSWORD_VARIABLE, None)
    if program != "sbatch":
        cleaned.update(LC_ALL="C", SLURM_TIME_FORMAT="%s", SLURM_BITSTR_LEN="0")
    return cleaned


def call(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str],
    timeout: float = TIMEOUT,
    input: str | None = None,
    idle: Callable[[], None] | None = None,
    umask: int = _OWN_UMASK,
) -> ProgramOutput:
    """Run the program `argv`, found on `environ`'s PATH, with `input` on its standard input, and return its exit code
    and output as a ProgramOutput. The program runs in a session of its own, so that Ctrl-C does not interrupt it.

    `umask` is the program's umask, which sbatch makes the job's. `idle` is called ten times a second until the program
    ends. If `idle` raises, the program and its children are killed, and the exception is raised again.

    Raise ConfigError if the program does not exist or is not executable. Raise SubmitAgain if it does not end within
    `timeout` seconds; the program and its children are then killed.
    """
    import subprocess

    program = argv[0]
    asks = "squeue" if "--test-only" in argv else program
    given = subprocess.DEVNULL if input is None else _open_text(input)
    try:
        process = subprocess.Popen(
            argv,
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environ(environ, asks),
            start_new_session=True,
            umask=umask,
        )
    except (FileNotFoundError, PermissionError) as error:
        raise _missing_program_error(program, error) from None
    finally:
        if given >= 0:
            os.close(given)
    try:
        out, err = _wait_for_output(process, timeout, idle)
    except subprocess.TimeoutExpired:
        _kill(process)
        what = f"Slurm's {program} gave no answer within {timeout:g} s"
        raise SubmitAgain(what, program, "the cluster's controller may be busy or down; try again") from None
    except BaseException:  # `idle` may raise anything, an interrupt too; the program must not stay behind
        _kill(process)
        raise
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return ProgramOutput(code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def _open_text(text: str) -> int:
    """Write `text` to an anonymous file and return a file descriptor at its beginning, for use as a program's standard
    input. A pipe would not do: a batch script can be hundreds of times as large as a pipe's buffer."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("worldsize-input")
    else:
        from tempfile import TemporaryFile

        with TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    left = memoryview(text.encode("utf-8", "surrogateescape"))
    while left:
        left = left[os.write(descriptor, left) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _wait_for_output(
    process: subprocess.Popen[bytes], timeout: float, idle: Callable[[], None] | None
) -> tuple[bytes, bytes]:
    if idle is None:
        return process.communicate(timeout=timeout)
    import subprocess
    import time

    deadline = time.monotonic() + timeout
    while True:
        try:
            return process.communicate(timeout=_IDLE_INTERVAL)
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                raise
        idle()


def run_slurm(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str],
    timeout: float = TIMEOUT,
    input: str | None = None,
    idle: Callable[[], None] | None = None,
    umask: int = _OWN_UMASK,
) -> str:
    """Run the Slurm program `argv` with the parameters of `call`, and return its standard output. If its exit code is
    not 0, raise ConfigError, SubmitAgain or SubmitRejected, as `errors.slurm_error` classifies its error text."""
    answer = call(argv, environ=environ, timeout=timeout, input=input, idle=idle, umask=umask)
    if answer.code == 0:
        return answer.out
    from worldsize.compute.slurm.errors import slurm_error

    text = answer.err.strip() or answer.out.strip() or f"it ended with code {answer.code} and printed nothing"
    raise slurm_error(argv[0], text, environ)


def _missing_program_error(program: str, error: OSError) -> ConfigError:
    what = "not found" if isinstance(error, FileNotFoundError) else "not executable"
    return ConfigError(
        f"Slurm's {program} is {what} on PATH: this is not a login node of a Slurm cluster",
        program,
        "log in to the cluster first, or load its module (often `module load slurm`)",
    )


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill `process`, a Slurm program, and every process that it started, since sites wrap sbatch in scripts. Wait for
    the program's end and close its pipes."""
    import signal

    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
