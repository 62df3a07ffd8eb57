"""The isolation of a rehearsal's virtual nodes from each other, as far as the system permits it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.agent.outcome.node_record import note
from worldsize.agent.posix.network import LOOPBACK, cut_network
from worldsize.agent.supervision.node_preparation import remember_own_directory
from worldsize.common.atomic_files import write_json
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.rehearsal.agent import namespaces


def isolate(plan: Plan, paths: RunPaths, environ: Mapping[str, str]) -> tuple[Mapping[str, str], bool]:
    """Cut the network off from this process, the parent of all agents of a rehearsal, if the rehearsal is offline, and
    write to the run directory what the system refused. Return the environment variables of the agents, and whether each
    agent must call `mount_disks`."""
    offline = bool(plan.rehearsal and plan.rehearsal.offline)
    isolated = namespaces.Isolation()
    try:
        os.makedirs(paths.disks, exist_ok=True)
        isolated = namespaces.probe_isolation(offline, len(plan.agents) > 1, paths.disks)
        if isolated.network == "":
            cut_network()
            environ = {**LOOPBACK, **environ}
    except OSError as error:
        note(f"not isolated: {error}")
        return environ, isolated.disks == ""
    write_json(paths.isolation, isolated._asdict())
    return environ, isolated.disks == ""


def mount_disks(plan: Plan, paths: RunPaths, environ: Mapping[str, str]) -> None:
    """Mount a separate disk over the temporary directories for the virtual node of a rehearsal whose agent this process
    is. Raise OSError if the system refuses it."""
    if plan.local is not None:
        remember_own_directory(plan.local.base, environ)
    shared = plan.rehearsal.shared if plan.rehearsal else ()
    namespaces.mount_own_disks(paths.disks, paths.root, shared, environ)
