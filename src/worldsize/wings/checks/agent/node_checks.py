"""The table of the probes that each node executes by itself.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple

_QUICK = "quick"


class NodeCheck(NamedTuple):
    """A probe: a module of `probes/` with `probe(context: NodeContext) -> ProbeResult`.

    ids    the rows that it may give, each of which is unknown if the probe is late or fails
    what   the subject that such an unknown row names
    limit  the time limit in seconds
    cheap  whether it is part of the cheap check: it takes milliseconds, and starts no program except nvidia-smi
    group  the probes of a group share a process, if none takes longer than a second; "": its own process
    """

    module: str
    ids: tuple[str, ...]
    what: str
    limit: float = 5.0
    cheap: bool = True
    group: str = ""


NODE_CHECKS = (
    NodeCheck("system", (), "the system's versions", group=_QUICK),
    NodeCheck("packages", (), "the versions of Python and its packages", group=_QUICK),
    NodeCheck("disk", ("files.space", "files.inodes", "files.node_disk"), "free space", group=_QUICK),
    NodeCheck("shm", ("memory.shm",), "/dev/shm", group=_QUICK),
    NodeCheck("limits", ("limits.open_files", "limits.memlock", "limits.processes"), "ulimits", group=_QUICK),
    NodeCheck("cpus", ("cpu.count", "cpu.binding"), "cores", group=_QUICK),
    NodeCheck("inputs", ("files.inputs",), "the job's files", group=_QUICK),
    NodeCheck("gpus", ("gpu.count", "gpu.memory", "gpu.ecc", "gpu.recovery", "gpu.xid", "gpu.throttle"), "GPUs", 20.0),
    NodeCheck("gpu_topology", ("gpu.topology",), "how the GPUs are connected", 20.0, cheap=False),
    NodeCheck("fabric", ("fabric.ports", "fabric.gpudirect", "fabric.azure_size"), "the fabric", group=_QUICK),
    NodeCheck("imports", ("python.imports", "python.mpi_backend"), "the environment's imports", 60.0, cheap=False),
    NodeCheck("internet", ("network.internet",), "the internet", 6.0, cheap=False),
)
