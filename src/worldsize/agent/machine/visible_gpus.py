"""Which GPUs programs see: what CUDA_VISIBLE_DEVICES leaves of those that the node shows.

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
    """A GPU with what identifies it. `mig`: whether it is divided into parts."""

    @property
    def uuid(self) -> str: ...

    @property
    def mig(self) -> bool: ...


class CountedGpu(Gpu, Protocol):
    """A GPU with the number of devices, `units`, that a program sees in it."""

    @property
    def units(self) -> int: ...


def visible_gpus(gpus: Sequence[Found], variable: str | None) -> list[Found]:
    """Those that a program with this variable sees, in its order; all of them where it is not set.

    As CUDA reads it: numbers, or beginnings of UUIDs, up to the first that means none ("-1", "NoDevFiles"). A part of
    a divided GPU stands for the GPU: which one, the variable does not say, so all that are divided count.
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
    """Return how many devices these visible GPUs are for a program: one each, or the parts that the variable names."""
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
