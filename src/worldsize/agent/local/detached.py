"""A conductor, or a queue of runs, as a program of its own: for a process with several threads, since a fork would copy
their locks, held."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from worldsize.agent.local.conductor import conductor_log
from worldsize.plan.run_paths import RunPaths


def spawn_conductor(paths: RunPaths, environ: Mapping[str, str]) -> int:
    """Start the run; the conductor's pid."""
    return spawn_detached([paths.agent, paths.root, "--conduct"], conductor_log(paths), environ)


def spawn_detached(argv: Sequence[str], log: str, environ: Mapping[str, str]) -> int:
    """A program of this Python that outlives this process and keeps nothing of it open; its pid."""
    return os.posix_spawn(
        sys.executable,
        [sys.executable, *argv],
        environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
    )
