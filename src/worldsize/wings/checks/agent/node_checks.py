"""What a node looks at by itself: a table of its probes.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple


class NodeCheck(NamedTuple):
    """One probe: a module of `probes/` with `probe(context: NodeContext) -> ProbeResult`.

    ids    the rows that it may give, each of which is unknown where it is late or fails
    what   what such an unknown row says was looked at
    limit  seconds
    cheap  whether it is part of the cheap form: it then takes milliseconds, and starts no program but nvidia-smi
    quick  whether it takes milliseconds wherever file servers answer, and starts nothing
    """

    module: str
    ids: tuple[str, ...]
    what: str
    limit: float = 5.0
    cheap: bool = True
    quick: bool = False


NODE_CHECKS = (
    NodeCheck("system", (), "the system's versions", quick=True),
    NodeCheck("packages", (), "the versions of Python and its packages", quick=True),
    NodeCheck("disk", ("files.space", "files.inodes", "files.node_disk"), "free space", quick=True),
    NodeCheck("shm", ("memory.shm",), "/dev/shm", quick=True),
    NodeCheck("limits", ("limits.open_files", "limits.memlock", "limits.processes"), "ulimits", quick=True),
    NodeCheck("cpus", ("cpu.count", "cpu.binding"), "cores", quick=True),
    NodeCheck("inputs", ("files.inputs",), "the job's files", quick=True),
    NodeCheck("gpus", ("gpu.count", "gpu.memory"), "GPUs", 20.0),
    NodeCheck("gpu_health", ("gpu.ecc", "gpu.recovery", "gpu.xid", "gpu.throttle"), "the GPUs' health", 20.0),
    NodeCheck("gpu_topology", ("gpu.topology",), "how the GPUs are connected", 20.0, cheap=False),
    NodeCheck("fabric", ("fabric.ports", "fabric.gpudirect", "fabric.azure_size"), "the fabric", quick=True),
    NodeCheck("imports", ("python.imports", "python.mpi_backend"), "the environment's imports", 60.0, cheap=False),
    NodeCheck("internet", ("network.internet",), "the internet", 6.0, cheap=False),
)
