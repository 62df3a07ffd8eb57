"""Facts about a node's hardware and software that its agent has found while its ranks ran.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple, TypeAlias

Rows: TypeAlias = "tuple[tuple[str, str], ...]"


class NodeFacts(NamedTuple):
    """The facts about one node: names with their values as text, in the order in which tables show them. Unknown facts
    are left out.

    hardware  "CPU", "cores", "memory", "GPU", "GPUs", "GPU memory", "kernel", "network"
    software  "system", "driver", "framework", "MPI", "CUDA", "NCCL", "cuDNN", "Python", "compiler"
    cores     the number that all ranks of the node together may use, by affinity and control groups
    gpus      the number that they may use
    machine   equal for nodes that are one machine, as virtual ones are
    complete  whether all facts were found; False if the run ended before, or if a query hangs
    """

    node_rank: int
    host: str
    hardware: Rows = ()
    software: Rows = ()
    cores: int = 0
    gpus: int = 0
    machine: str = ""
    complete: bool = True
