"""The random numbers of torch.cuda. They are drawn by the CPU's generator, which torch.manual_seed sets for all
devices.

Each virtual GPU has its own generator for the seeds and states that scripts set and read. `torch.Generator("cuda")` is
a generator of the CPU that reports a GPU as its device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .. import devices
from ..torch_module import torch


class Generator(torch._C.Generator):  # type: ignore[misc]
    """A torch.Generator that may also belong to a virtual GPU. Its device is the one that was requested: `cuda` stays
    without an index."""

    _virtual: Any = None

    def __new__(cls, device: Any = None) -> Any:
        virtual = torch.device("cuda", device) if isinstance(device, int) else torch.device(device or "cpu")
        if virtual.type != "cuda":
            return super().__new__(cls, device=virtual)
        devices.runtime_device(virtual)
        made = super().__new__(cls, device="cpu")
        made._virtual = virtual
        return made

    @property
    def device(self) -> Any:
        return super().device if self._virtual is None else self._virtual


def _make_generator(index: int) -> Any:
    made = torch._C.Generator.__new__(Generator, device="cpu")
    made._virtual = torch.device("cuda", index)
    return made


class _Generators(dict):  # type: ignore[type-arg]
    """A mapping from each GPU's index to its generator, which is created when it is first used."""

    def __missing__(self, index: int) -> Any:
        self[index] = _make_generator(index)
        return self[index]


_generators = _Generators()


class _DefaultGenerators(Sequence):  # type: ignore[type-arg]
    """The sequence torch.cuda.default_generators. It is empty until CUDA has begun."""

    def __len__(self) -> int:
        return devices.count() if devices.has_begun() else 0

    def __getitem__(self, index: Any) -> Any:
        return _generators[range(len(self))[index]]


default_generators = _DefaultGenerators()


def _valid_generator(device: Any) -> Any:
    return _generators[devices.valid_device(device)]


def _later_generator(device: Any) -> Any:
    """Return the generator of a virtual GPU (the current one for None) without beginning CUDA: torch also keeps such
    settings until CUDA begins."""
    return _generators[devices.index_of(device)]


def manual_seed(seed: int) -> None:
    """Set the seed of the current virtual GPU's generator without beginning CUDA, so that processes forked afterwards
    may still use a GPU."""
    _later_generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Set the seed of the generators of all virtual GPUs without beginning CUDA."""
    for index in range(devices.count()):
        _generators[index].manual_seed(int(seed))


def seed() -> None:
    _later_generator(None).seed()


def seed_all() -> None:
    for index in range(devices.count()):
        _generators[index].seed()


def initial_seed() -> int:
    return int(_valid_generator(None).initial_seed())


def get_rng_state(device: Any = "cuda") -> Any:
    return _valid_generator(device).get_state()


def get_rng_state_all() -> list[Any]:
    return [get_rng_state(index) for index in range(devices.count())]


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    _later_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


FUNCTIONS: dict[str, Any] = {
    each.__name__: each
    for each in (
        manual_seed, manual_seed_all, seed, seed_all, initial_seed, get_rng_state, get_rng_state_all, set_rng_state,
        set_rng_state_all,
    )
}  # fmt: skip
"""The functions by their names in torch.cuda and torch.cuda.random."""
