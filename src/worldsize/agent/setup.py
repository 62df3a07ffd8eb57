"""The environment that a run's setup leaves behind, where no batch script executes its lines."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping

from worldsize.agent.processes import signal_group
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.plan.setup import at_step, failed_step, setup_lines

_LAST_BYTES = 4096
_PAUSE = 0.02


class SetupFailed(Exception):
    """Says in words which line failed, with which code; `code` is that code."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(what)
        self.code = code


def environment_after(
    plan: Plan, paths: RunPaths, environ: Mapping[str, str], stopped: Callable[[], bool], node_rank: int = 0
) -> dict[str, str] | None:
    """`environ` as the plan's setup leaves it; what the lines print goes to batch.log, of a node but the first to
    batch-NNNN.log. None once `stopped()`.

    Raises SetupFailed, OSError.
    """
    import subprocess

    printed = paths.setup_log(node_rank)
    found = printed + ".environment"
    lines = setup_lines(plan.setup, os.path.basename(printed))
    script = "\n".join([*lines, 'exec env -0 >"$RUN/%s"' % os.path.basename(found)])
    with open(printed, "ab") as log:
        child = subprocess.Popen(
            ["bash", "-c", script],
            env={**environ, "RUN": paths.root},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    while child.poll() is None:
        if stopped():
            signal_group(child.pid, signal.SIGKILL)
            child.wait()
            return None
        time.sleep(_PAUSE)
    if child.returncode:
        if stopped():  # by a signal that its processes were sent too
            return None
        raise SetupFailed(_last_words(printed, child.returncode), child.returncode)
    if not os.path.exists(found):
        raise SetupFailed("setup ended with code 0: %s" % at_step(printed), 1)
    with open(found, "rb") as file:
        entries = [entry.partition(b"=") for entry in file.read().split(b"\0") if b"=" in entry]
    os.unlink(found)
    after = {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}
    return {name: value for name, value in after.items() if name != "RUN" or name in environ}


def _last_words(log: str, code: int) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
        lines = file.read().decode(errors="replace").split("\n")
    said = [failed for line in lines for failed in (failed_step(line),) if failed]
    return said[-1] if said else "setup ended with code %d: %s" % (code, at_step(log))
