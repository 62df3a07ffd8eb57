"""What a node is made of and has installed, as its agent has found it while its ranks ran.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple, TypeAlias

Rows: TypeAlias = "tuple[tuple[str, str], ...]"


class NodeFacts(NamedTuple):
    """Names with their values as text, in the order in which tables show them; what is not known is left out.

    hardware  "CPU", "cores", "memory", "GPU", "GPUs", "GPU memory", "kernel", "network"
    software  "system", "driver", "framework", "MPI", "CUDA", "NCCL", "cuDNN", "Python", "compiler"
    cores     that the node's ranks may use, all together, by affinity and control groups
    gpus      that they may use
    machine   equal for nodes that are one machine, as virtual ones are
    complete  whether all that is asked for was found out; not of a run that ended before, and where something hangs
    """

    node_rank: int
    host: str
    hardware: Rows = ()
    software: Rows = ()
    cores: int = 0
    gpus: int = 0
    machine: str = ""
    complete: bool = True
