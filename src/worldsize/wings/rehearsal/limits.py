"""The limits of a rehearsal: what it could not show."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.atomic_files import read_object
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths

LIMITS = (
    "speed, out of memory, float16 (bfloat16 is used instead), NCCL and the network between nodes, torch.compile, "
    "CUDA kernels and extensions"
)


def limitation_lines(plan: Plan, paths: RunPaths) -> list[str]:
    """Return lines of text for the end of a rehearsal that list what the rehearsal could not show, such as speed, or a
    network that was not cut."""
    lines = [f"this was a rehearsal on virtual GPUs; it does not show: {LIMITS}"]
    found = read_isolation(paths)
    if found.get("network"):
        lines.append(f"the network was not cut: {found['network']}")
    if found.get("disks"):
        lines.append(f"the nodes share /tmp, so that a path that only node 0 has is found: {found['disks']}")
    if plan.batch is not None:
        lines.append("the nodes of a batch script share /tmp")
    return lines


def read_isolation(paths: RunPaths) -> Mapping[str, str | None]:
    """Read the record of a rehearsal's isolation from its run directory. Return the reasons why the network was not cut
    and the disks not separated, under the keys "network" and "disks": "" if it succeeded, None if it was not requested.
    """
    found = read_object(paths.isolation).items()
    return {name: why for name, why in found if why is None or isinstance(why, str)}
