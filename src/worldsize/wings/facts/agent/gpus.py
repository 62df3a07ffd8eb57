"""The GPUs that a node's ranks may use. A driver that hangs blocks its caller. So only a process on which no other
process waits may call this (`program.py`).

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from worldsize.agent.machine.node_files import names_in, text_of
from worldsize.agent.machine.visible_gpus import visible_gpus
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import size_text
from worldsize.registry import find_module
from worldsize.state.node_facts import Rows

VISIBLE = "CUDA_VISIBLE_DEVICES"
_DEVICES, _PROGRAM = "wings.metrics.agent.gpus.devices", "wings.metrics.agent.gpus.program"
_MOST = 256


class GpuFacts(NamedTuple):
    """The facts about a GPU. `memory` is in bytes, None if unknown. `mig` is true if the GPU is divided."""

    uuid: str
    model: str
    memory: int | None = None
    mig: bool = False


def find_gpus(environ: Mapping[str, str], root: str = "/") -> list[GpuFacts]:
    """Return the facts about the GPUs that a program with the variables `environ` sees, as NVIDIA's or AMD's driver
    reports them, else from the files of NVIDIA's driver alone."""
    devices = find_module(_DEVICES)
    if devices is not None and not devices.has_gpus(environ, root):
        return []
    program = find_module(_PROGRAM)
    asked = [each.facts for each in program.find_gpus(environ)] if program else []
    found = [GpuFacts(each.uuid, each.model, each.memory, each.mig) for each in asked]
    return found or visible_gpus(_by_files(root), environ.get(VISIBLE))


def gpu_rows(gpus: Sequence[GpuFacts]) -> Rows:
    """Return the rows "GPU", "GPUs" and "GPU memory" of a node's hardware facts. Empty without GPUs."""
    if not gpus:
        return ()
    rows = [("GPU", _counted(gpu.model for gpu in gpus)), ("GPUs", str(len(gpus)))]
    sizes = [size_text(gpu.memory) for gpu in gpus if gpu.memory]
    return (*rows, ("GPU memory", _counted(sizes))) if sizes else tuple(rows)


def _counted(texts: Iterable[str]) -> str:
    """Return the text if all texts are equal, else each different text with its count: "4 × A100, 2 × V100"."""
    counts = Counter(texts)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{count} × {text}" for text, count in counts.items())


def _by_files(root: str) -> list[GpuFacts]:
    """Return the facts about the node's GPUs from the files of NVIDIA's driver,
    `/proc/driver/nvidia/gpus/ADDRESS/information`. These do not contain the memory."""
    at = os.path.join(root, "proc/driver/nvidia/gpus")
    texts = (text_of(os.path.join(at, name, "information"), 1 << 16) for name in names_in(at)[:_MOST])
    return [GpuFacts(_value(text, "GPU UUID"), _value(text, "Model")) for text in texts if _value(text, "Model")]


def _value(text: str, name: str) -> str:
    found = re.search(rf"(?m)^{name}:\s*(\S.*?)\s*$", text)
    return found[1][:80] if found else ""
