"""Files of shell lines that turn a process that another launcher has started into a rank: they set its environment, its
log, its CPUs and its umask."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from worldsize.agent.launchers.rank_process import Process
from worldsize.common.atomic_files import write_bytes
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.run_paths import RunPaths


def write_rank_files(
    ranks: Iterable[Process], launcher: str, environment: Mapping[str, str], paths: RunPaths, umask: int | None
) -> None:
    """Write a file of shell lines for each rank of this node, which set the rank's environment, log, CPUs and umask in
    a process that another `launcher` starts. `environment` is the launcher's own environment. Each file is written
    atomically. Raise OSError."""
    for process in ranks:
        lines = rank_lines(process, launcher, environment, umask)
        path = os.path.join(paths.launch_dir, f"rank-{process.ranks[0]}")
        write_bytes(path, lines.encode(errors="surrogateescape"))


def rank_lines(process: Process, launcher: str, environment: Mapping[str, str], umask: int | None = None) -> str:
    stand = launcher_facts(launcher).own_variables
    rank = {name: value for name, value in process.environment.items() if not name.startswith(stand)}
    changed = {name: value for name, value in rank.items() if environment.get(name) != value and name.isidentifier()}
    gone = [name for name in environment if name not in rank and not name.startswith((*stand, "OMPI_", "PRTE_"))]
    lines = [f"export {name}={to_shell_word(value)}" for name, value in changed.items()]
    lines += [f"unset {name}" for name in gone]
    lines.append(f"exec >>{to_shell_word(process.log)} 2>&1")
    if umask is not None:
        lines.append(f"umask {umask:03o}")
    if process.cpus:
        lines.append(f"taskset -cp {','.join(map(str, process.cpus))} $$ >/dev/null 2>&1")
    return "\n".join(lines) + "\n"


def to_shell_word(text: str) -> str:
    """Return the text quoted as one word of sh."""
    return "'{}'".format(text.replace("'", "'\\''"))
