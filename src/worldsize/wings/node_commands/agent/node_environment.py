"""The environment of a command on a node: the environment of a rank there, without the variables of a rank.

Standard library only, and nothing of worldsize: the text of this module travels inside that of `run_command`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

HELPER_OF = "WORLDSIZE_HELPER_OF"
"""The variable of the same name as in `worldsize.agent.posix.processes`, which this program cannot import. By it, an
agent that has started this program distinguishes the processes that the program leaves behind from those of ranks."""

_MASK = "***"
"""The mark that replaces a secret in plan.json. Ranks have the secret, and so has a command next to a rank."""

_AT_SECURE = 23


def living_rank_environment(run_id: str, node: int) -> dict[str, str] | None:
    """Return the environment variables of a living rank of the run on this machine, preferably of the node `node`, else
    of a process that started ranks. None if none of these processes is alive.

    Any user may start a process with the run's id, so only this user's processes count. Processes that end meanwhile,
    or cannot be read, are skipped.
    """
    mark = b"WORLDSIZE_RUN_ID=%s" % run_id.encode()
    found, best = None, (False, False, -2)
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                entries = file.read().split(b"\0") if _is_ours(pid) else []
        except OSError:
            continue
        if mark in entries and not _gained_privileges(pid):
            environ = _parse_environment(entries)
            likeness = _likeness(environ, node)
            if likeness > best:
                found, best = environ, likeness
    return found


def _is_ours(pid: int) -> bool:
    """Return whether the process belongs to this user. This is the same check as
    `worldsize.trust.owners.is_own_process`, which this program, a single file, cannot import. Raise OSError if the
    process cannot be read."""
    with open(f"/proc/{pid}/status", "rb") as file:
        ids = next((line.split()[1:] for line in file if line.startswith(b"Uid:")), [])
    return ids == [b"%d" % os.geteuid()] * 4


def _gained_privileges(pid: int) -> bool:
    """Return whether the process runs a program with a set-user-ID bit, so that another user may have chosen its
    environment. Linux shows this in the process's auxiliary vector (AT_SECURE, getauxval(3)). True if that cannot be
    read."""
    try:
        with open(f"/proc/{pid}/auxv", "rb") as file:
            entries = dict(struct.iter_unpack("@LL", file.read()))
    except (OSError, struct.error):
        return True
    return bool(entries.get(_AT_SECURE, 1))


def _likeness(environ: Mapping[str, str], node: int) -> tuple[bool, bool, int]:
    """Return a measure of the similarity between the process with the environment `environ` and a rank of the node; a
    greater one is more similar. Processes that a batch script's own srun has started have only Slurm's variables, with
    a step. The script itself has no step, or an earlier one."""
    step = environ.get("SLURM_STEP_ID", "")
    ours = environ.get("WORLDSIZE_NODE_RANK") == str(node)
    return "WORLDSIZE_RANK" in environ, ours, int(step) if step.isdigit() else -1


def node_environment(order: Mapping[str, Any], node: int, own: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command of `worldsize exec` on this node: that of one of its living ranks, without
    the variables of a rank. It is based on `own`, this program's environment, if no rank is alive, or if the order has
    no run."""
    plan = order["plan"]
    if plan is None:
        return {**own, **order["set"], "WORLDSIZE_NODE_RANK": str(node)}
    ranks = living_rank_environment(plan["run_id"], node)
    environment = _without_rank_variables(ranks or own, order["scrub"], plan.get("kept", ()))
    if ranks is None:
        environment["PATH"] = os.pathsep.join((*plan["path"], environment.get("PATH", os.defpath)))
    path = [each for each in environment.pop("PYTHONPATH", "").split(os.pathsep) if each not in ("", order["hook"])]
    if path:
        environment["PYTHONPATH"] = os.pathsep.join(path)
    if plan["visible_devices"]:  # each rank has its own GPUs; a command has all GPUs of the node
        environment.pop("CUDA_VISIBLE_DEVICES", None)
        if "CUDA_VISIBLE_DEVICES" in own:
            environment["CUDA_VISIBLE_DEVICES"] = own["CUDA_VISIBLE_DEVICES"]
    set_by_job = {
        name: value for name, value in plan["environment"].items() if not plan.get("hidden") or _MASK not in value
    }
    helper = {HELPER_OF: own[HELPER_OF]} if HELPER_OF in own else {}
    return {**environment, **set_by_job, **order["set"], **helper, "WORLDSIZE_NODE_RANK": str(node)}


def shell_argv(environment: Mapping[str, str]) -> list[str]:
    """Return the command line of an interactive shell, bash or sh, for `worldsize shell`. It is no login shell, because
    the start-up files of a login shell would replace the ranks' PATH."""
    from shutil import which

    return ["bash" if which("bash", path=environment.get("PATH", os.defpath)) else "sh", "-i"]


def _without_rank_variables(
    environ: Mapping[str, str], scrub: Mapping[str, Any], kept: Sequence[str]
) -> dict[str, str]:
    prefixes, names, kept = tuple(scrub["prefixes"]), frozenset(scrub["names"]), (*scrub["kept"], *kept)
    return {
        name: value
        for name, value in environ.items()
        if name in kept or not (name in names or name.startswith(prefixes))
    }


def _parse_environment(entries: List[bytes]) -> Dict[str, str]:
    pairs = (entry.partition(b"=") for entry in entries if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
