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
    """

    module: str
    ids: tuple[str, ...]
    what: str
    limit: float = 5.0
    cheap: bool = True


NODE_CHECKS = (
    NodeCheck("system", (), "the system's versions"),
    NodeCheck("packages", (), "the versions of Python and its packages"),
    NodeCheck("disk", ("files.space", "files.inodes", "files.node_disk"), "free space"),
    NodeCheck("shm", ("memory.shm",), "/dev/shm"),
    NodeCheck("limits", ("limits.open_files", "limits.memlock", "limits.processes"), "ulimits"),
    NodeCheck("cpus", ("cpu.count", "cpu.binding"), "cores"),
    NodeCheck("inputs", ("files.inputs",), "the job's files"),
    NodeCheck("gpus", ("gpu.count", "gpu.memory", "gpu.ecc", "gpu.recovery", "gpu.xid", "gpu.throttle"), "GPUs", 20.0),
    NodeCheck("gpu_topology", ("gpu.topology",), "how the GPUs are connected", 20.0, cheap=False),
    NodeCheck("fabric", ("fabric.ports", "fabric.gpudirect", "fabric.azure_size"), "the fabric"),
    NodeCheck("imports", ("python.imports", "python.mpi_backend"), "the environment's imports", 60.0, cheap=False),
    NodeCheck("internet", ("network.internet",), "the internet", 6.0, cheap=False),
)
