"""A table of the stages, which the nodes execute together in this order.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple


class StageEntry(NamedTuple):
    """An entry of the table: a module of `stages/` that contains `STAGE`, an object of the protocol Stage.

    ids    the ids of the rows that it may return; a stage without ids only prepares later stages
    what   the subject of the stage's unknown rows
    cheap  whether the stage is also part of a cheap check
    reads  the probes whose facts it reads
    needs  the stages whose answers it reads
    """

    module: str
    ids: tuple[str, ...]
    what: str
    cheap: bool = True
    reads: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


_ALL_FACTS = ("system", "packages", "inputs", "gpus", "gpu_topology", "fabric", "imports")
_TORCH = ("gpus", "fabric", "imports", "system")

STAGES = (
    StageEntry("same", ("same.versions", "same.variables", "same.gpus", "same.hardware", "files.inputs"),
               "the same on all nodes", reads=_ALL_FACTS),
    StageEntry("listen", (), "listening"),
    StageEntry("reach", ("network.names", "network.port", "network.latency", "network.interface", "clock"),
               "how the nodes reach each other", reads=("system", "gpus", "fabric"), needs=("listen",)),
    StageEntry("share", ("files.share",), "the shared run directory", cheap=False, needs=("listen",)),
    StageEntry("pairs", ("speed.compute", "speed.network"), "the nodes' speed", cheap=False, reads=_TORCH,
               needs=("listen",)),
    StageEntry("second_pairs", ("speed.compute", "speed.network"), "the nodes' speed", cheap=False, reads=_TORCH,
               needs=("listen", "pairs")),
    StageEntry("collective", ("collective.result",), "a collective over all nodes", cheap=False, reads=_TORCH,
               needs=("listen",)),
    StageEntry("bandwidth", ("fabric.bandwidth", "transport.nccl", "transport.mpi"), "the fabric's speed", cheap=False,
               reads=_TORCH, needs=("listen",)),
)  # fmt: skip
