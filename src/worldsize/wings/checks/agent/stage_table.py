"""What the nodes do together, in this order: a table of the stages.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple


class StageEntry(NamedTuple):
    """One stage: a module of `stages/` with `STAGE`, an object of the protocol Stage. `ids`: the rows that it may
    give; a stage without any is there for those after it."""

    module: str
    ids: tuple[str, ...]
    cheap: bool = True


STAGES = (
    StageEntry("same", ("same.versions", "same.variables", "same.gpus", "same.hardware")),
    StageEntry("listen", ()),
    StageEntry("reach", ("network.names", "network.port", "network.latency", "network.interface", "clock")),
    StageEntry("share", ("files.share",), cheap=False),
    StageEntry("pairs", ("speed.compute", "speed.network"), cheap=False),
    StageEntry("second_pairs", ("speed.compute", "speed.network"), cheap=False),
    StageEntry("collective", ("collective.result",), cheap=False),
    StageEntry("bandwidth", ("fabric.bandwidth", "transport.nccl", "transport.mpi"), cheap=False),
)
