"""Finds and begins commands beside the ranks that nobody can bring to a node: they lie in the run's directory.

Standard library only: travels inside agent.pyz (Python >= 3.8), and is loaded where the plan asks for it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from threading import Thread

from worldsize.agent.posix import processes
from worldsize.common.atomic_files import access_of, read_json
from worldsize.plan.run_paths import NODE_PROGRAM_FILE, RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

POLL_SECONDS = 0.5
"""Seconds between two looks; each lists a directory that is nearly always empty."""


def watch_commands(paths: RunPaths, node_rank: int, environ: Mapping[str, str]) -> None:
    """Begin this node's part of every command of the attempt, until the agent ends. In a thread of its own: a file
    server that keeps it waiting keeps nobody else."""
    Thread(target=_watch, args=(paths, access_of(paths.root), node_rank, environ), daemon=True).start()


def _watch(paths: RunPaths, access: Tuple[int, int] | None, node_rank: int, environ: Mapping[str, str]) -> None:
    seen: set[str] = set()
    while True:
        for name in sorted(poll_node_commands(paths, access) - seen):
            if start_command(os.path.join(paths.errands, name), node_rank, environ):
                seen.add(name)
        time.sleep(POLL_SECONDS)


def poll_node_commands(paths: RunPaths, access: Tuple[int, int] | None) -> set[str]:
    """Return the names of the attempt's commands, and make their directory if it is missing. `access` is that of the
    run's directory when the agent began (`access_of`). A run's directory with another one was put in its place by
    others, and has no commands; a link, or a directory with another access, is no command."""
    try:
        if not os.path.isdir(paths.errands):
            os.mkdir(paths.errands)  # what is there is listed anew, what is missing may be cached
        names = os.listdir(paths.errands)
    except OSError:
        return set()
    if access_of(paths.root) != access:
        return set()
    return {name for name in names if name[0] != "." and access_of(os.path.join(paths.errands, name)) == access}


def start_command(directory: str, node_rank: int, environ: Mapping[str, str]) -> bool:
    """Start this node's part of the command; False where that could not be done, and is to be tried again. The file's
    name and the arguments are protocol: another release may have written the directory.

    The node program is a child of ours and no rank: it ends with its command, or when we do; what is left of it when
    the ranks are gone is ended like everything else that is left then, and no warning tells of it.
    """
    try:
        if node_rank in read_json(os.path.join(directory, "order.json"))["nodes"]:
            words = [os.path.join(directory, NODE_PROGRAM_FILE), directory, str(node_rank), str(os.getpid())]
            argv = [sys.executable, "-I", "-S", *words]
            processes.spawn_helper(sys.executable, argv, environ, trouble_log(directory, node_rank))
    except (OSError, ValueError, KeyError, TypeError):
        return False  # whoever asked has removed it, or is told by our silence
    return True


def trouble_log(directory: str, node_rank: int) -> str:
    """Where the node program complains when it can tell nobody."""
    return os.path.join(directory, f"trouble-{node_rank:04d}.log")
