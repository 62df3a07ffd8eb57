"""The watcher that finds and starts commands in the run's directory. They run next to the ranks, on a node to which the
client has no connection.

Standard library only: travels inside agent.pyz (Python >= 3.8), and is loaded if the plan requests it.
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
"""Seconds between two polls; each lists a directory that is nearly always empty."""


def watch_commands(paths: RunPaths, node_rank: int, environ: Mapping[str, str]) -> None:
    """Start a thread that looks for commands of `worldsize exec` in the run's directory and starts this node's part of
    each, until the agent ends. It has a thread of its own, so that a file server that blocks it blocks nothing else."""
    Thread(target=_watch, args=(paths, access_of(paths.root), node_rank, environ), daemon=True).start()


def _watch(paths: RunPaths, access: Tuple[int, int] | None, node_rank: int, environ: Mapping[str, str]) -> None:
    seen: set[str] = set()
    while True:
        for name in sorted(poll_node_commands(paths, access) - seen):
            if start_command(os.path.join(paths.errands, name), node_rank, environ):
                seen.add(name)
        time.sleep(POLL_SECONDS)


def poll_node_commands(paths: RunPaths, access: Tuple[int, int] | None) -> set[str]:
    """Return the names of the commands of `worldsize exec` in the directory for them in the run's directory, and create
    that directory if it is missing.

    `access` is the access of the run's directory when the agent began (`access_of`). If it is different now, another
    user has replaced the directory, and it has no commands. A link, or a directory with another access, is not a
    command.
    """
    try:
        if not os.path.isdir(paths.errands):
            os.mkdir(paths.errands)  # an existing directory is listed afresh, a missing one may be cached
        names = os.listdir(paths.errands)
    except OSError:
        return set()
    if access_of(paths.root) != access:
        return set()
    return {name for name in names if name[0] != "." and access_of(os.path.join(paths.errands, name)) == access}


def start_command(directory: str, node_rank: int, environ: Mapping[str, str]) -> bool:
    """Start this node's part of the command of `worldsize exec` whose files are in `directory`, if the command is for
    this node. Return False if that failed and should be tried again. The name of the file and the arguments are a
    protocol: another release may have written the directory.

    The node program is a child of the agent, but no rank. It ends with its command, or with the agent. Processes of it
    that still exist after the ranks have ended are terminated like all others, and no warning reports them.
    """
    try:
        if node_rank in read_json(os.path.join(directory, "order.json"))["nodes"]:
            words = [os.path.join(directory, NODE_PROGRAM_FILE), directory, str(node_rank), str(os.getpid())]
            argv = [sys.executable, "-I", "-S", *words]
            processes.spawn_helper(sys.executable, argv, environ, trouble_log(directory, node_rank))
    except (OSError, ValueError, KeyError, TypeError):
        return False  # the client has removed it, or notices that no answer comes
    return True


def trouble_log(directory: str, node_rank: int) -> str:
    """Return the path of the file, in the directory of a command of `worldsize exec`, to which the node program writes
    errors that it cannot report otherwise."""
    return os.path.join(directory, f"trouble-{node_rank:04d}.log")
