"""A table of published measurements: bus bandwidth of all-reduce, by GPU and size.

The table is for runs without other nodes to compare with, such as runs on one node.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import math

from worldsize.common.named_tuple import NamedTuple


class PublishedBandwidth(NamedTuple):
    """A published measurement: `gpus` GPUs of a model on each of `nodes` nodes reduced `mib` MiB with `gb_per_s` GB/s
    (10^9 bytes) of bus bandwidth."""

    model: str
    gpus: int
    nodes: int
    mib: int
    gb_per_s: float
    source: str


_ML_ENGINEERING = "stas00/ml-engineering, network/README.md, 2026-08"
_SUPERBENCH = "microsoft/superbench-results, 0.4"

PUBLISHED = (
    PublishedBandwidth("A100", 8, 1, 64, 172, _ML_ENGINEERING),
    PublishedBandwidth("A100", 8, 1, 512, 223, _ML_ENGINEERING),
    PublishedBandwidth("A100", 8, 1, 8192, 235.4, _SUPERBENCH),
    PublishedBandwidth("A100", 8, 1, 16384, 234.9, _ML_ENGINEERING),
    PublishedBandwidth("H100", 8, 1, 16384, 476, "NVIDIA/nccl-tests: what NVIDIA expects of 8 H100"),
    PublishedBandwidth("H200", 4, 1, 16384, 363, _ML_ENGINEERING),
    PublishedBandwidth("H200", 8, 1, 64, 347, _ML_ENGINEERING),
    PublishedBandwidth("H200", 8, 1, 1024, 464, _ML_ENGINEERING),
    PublishedBandwidth("H200", 8, 1, 16384, 482.3, _ML_ENGINEERING),
    PublishedBandwidth("B200", 4, 1, 16384, 673, _ML_ENGINEERING),
    PublishedBandwidth("B200", 8, 1, 16384, 845.7, _ML_ENGINEERING),
    PublishedBandwidth("MI300X", 2, 1, 16384, 47.7, _ML_ENGINEERING),
    PublishedBandwidth("MI300X", 8, 1, 16384, 312.9, _ML_ENGINEERING),
    PublishedBandwidth("A100", 8, 3, 16384, 84.8, "NVIDIA/nccl-tests#119: 4 adapters of 200 Gb/s per node"),
    PublishedBandwidth("H200", 8, 4, 4096, 365, _ML_ENGINEERING + ": EFA, 8 × 400 Gb/s"),
    PublishedBandwidth("B200", 8, 4, 1024, 362, _ML_ENGINEERING + ": EFA, 8 × 400 Gb/s"),
    PublishedBandwidth("B200", 8, 4, 4096, 377, _ML_ENGINEERING + ": EFA, 8 × 400 Gb/s"),
    PublishedBandwidth("B200", 8, 4, 16384, 382, _ML_ENGINEERING + ": EFA, 8 × 400 Gb/s"),
)

_NO_SWITCH = ("PCIE", "NVL")
"""Words in the model names of cards that are connected differently from those in the table."""


def published_bandwidth(model: str, gpus: int, nodes: int, mib: int) -> PublishedBandwidth | None:
    """Return the published all-reduce measurement for `gpus` GPUs of this model on each of `nodes` nodes whose size is
    closest to `mib` MiB; None if there is none."""
    words = model.upper().replace("-", " ").split()
    if any(word in _NO_SWITCH for word in words):
        return None
    rows = [row for row in PUBLISHED if row.model in words and (row.gpus, row.nodes) == (gpus, nodes)]
    return min(rows, key=lambda row: abs(math.log(row.mib / max(mib, 1))), default=None)
