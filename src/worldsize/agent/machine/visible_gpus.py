"""The GPUs that programs see: CUDA_VISIBLE_DEVICES selects them from those of the node.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import Protocol
from worldsize.common.numbers import parse_digits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Found = TypeVar("Found", bound="Gpu")


class Gpu(Protocol):
    """A GPU with the values that identify it. `mig` states whether it is divided into parts."""

    @property
    def uuid(self) -> str: ...

    @property
    def mig(self) -> bool: ...


class CountedGpu(Gpu, Protocol):
    """A GPU with the number of devices, `units`, that a program sees in it."""

    @property
    def units(self) -> int: ...


def visible_gpus(gpus: Sequence[Found], variable: str | None) -> list[Found]:
    """Return those of the node's `gpus` that a program sees if CUDA_VISIBLE_DEVICES has the value `variable`, in its
    order; all GPUs if it is not set.

    The value is read as CUDA reads it: numbers, or beginnings of UUIDs, up to the first that means none ("-1",
    "NoDevFiles"). A part of a divided GPU counts as its GPU. The variable does not state which GPU it belongs to, so
    all divided GPUs count.
    """
    if variable is None:
        return list(gpus)
    found: list[Found] = []
    for word in variable.split(","):
        chosen = _chosen(gpus, word.strip())
        if not chosen:
            break
        found += [gpu for gpu in chosen if gpu not in found]
    return found


def visible_units(seen: Sequence[CountedGpu], variable: str | None) -> int:
    """Return how many devices a program sees in the visible GPUs `seen`: the number of parts if the value `variable` of
    CUDA_VISIBLE_DEVICES names parts of divided GPUs, else the sum of the units of each GPU."""
    words = [word.strip() for word in variable.split(",")] if variable is not None else []
    if any(word.startswith("MIG-") for word in words):
        return len(words) if seen else 0
    return sum(gpu.units for gpu in seen)


def _chosen(gpus: Sequence[Found], word: str) -> list[Found]:
    number = parse_digits(word)
    if number is not None:
        return list(gpus[number : number + 1])
    if word.startswith("MIG-"):
        return [gpu for gpu in gpus if gpu.mig]
    found = [gpu for gpu in gpus if word and gpu.uuid.startswith(word)]
    return found if len(found) == 1 else []
