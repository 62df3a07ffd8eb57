"""The environment that a run's setup leaves behind, for runs without a batch script that executes the setup's lines."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from io import BufferedRandom

from worldsize.agent.posix.processes import signal_group
from worldsize.common.atomic_files import Descriptor, open_unnamed_file, read_tail
from worldsize.errors import RunFailed
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.plan.setup_script import bash_command, current_step, failed_step, setup_lines

_HIGH = 200
_LAST_BYTES = 4096
_PAUSE = 0.02


def environment_after_setup(
    plan: Plan, paths: RunPaths, environ: Mapping[str, str], stopped: Callable[[], bool], node_rank: int = 0
) -> dict[str, str] | None:
    """Execute the shell lines of the plan's `setup` in bash with the environment `environ`. Return the environment that
    the lines leave behind, for the ranks; None once `stopped()` is true. The output of the lines goes to batch.log, on
    a node other than the first to batch-NNNN.log.

    Raise OSError; raise RunFailed, with the line that failed and its exit code, if the setup fails.
    """
    import subprocess

    printed = paths.setup_log(node_rank)
    with _open_unnamed_file() as found, open(printed, "ab") as log:
        lines = setup_lines(plan.setup, os.path.basename(printed), plan_secret_values(plan), plan.ranks_umask)
        argv, variable = bash_command([*lines, f"exec env -0 >&{found.fileno()}"])
        child = subprocess.Popen(
            argv,
            env={**environ, **variable, "RUN": paths.root},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=(found.fileno(),),
            start_new_session=True,
        )
        while child.poll() is None:
            if stopped():
                signal_group(child.pid, signal.SIGKILL)
                child.wait()
                return None
            time.sleep(_PAUSE)
        code = child.returncode if child.returncode >= 0 else 128 - child.returncode
        if code:
            if stopped():  # by a signal that was also sent to the setup's processes
                return None
            raise RunFailed(_failure_text(printed, code), code)
        found.seek(0)
        entries = [entry.partition(b"=") for entry in found.read().split(b"\0") if b"=" in entry]
    if not entries:
        raise RunFailed(f"setup ended with code 0: {current_step(printed)}", 1)
    after = {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}
    return {name: value for name, value in after.items() if name != "RUN" or name in environ}


def _open_unnamed_file() -> BufferedRandom:
    """Open and return a temporary file without a name, into which the setup writes its environment, because an
    environment contains secrets, and a run's directory may be open to a group. The file's number is one that setup
    lines do not use for their own files."""
    import fcntl

    with Descriptor(open_unnamed_file("environment")) as made:
        return open(fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, _HIGH), "w+b")


def _failure_text(log: str, code: int) -> str:
    lines = read_tail(log, _LAST_BYTES).decode(errors="replace").split("\n")
    said = [failed for line in lines for failed in (failed_step(line),) if failed]
    return said[-1] if said else f"setup ended with code {code}: {current_step(log)}"
