"""Two streams of random numbers: one that all ranks share, and one of each rank's own.

Shared is what a single process would draw once for the whole batch: shuffling, noise, initial weights. A rank's own
is what it draws for its samples alone: dropout, augmentation. The generators hold one of them at a time.
"""

from __future__ import annotations

import sys

from worldsize_inrank.import_hook import call_after_import

from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .process_group import Communicator
    from .rank_state import Training

_MASK = (1 << 63) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def numpy_random() -> Any:
    """numpy.random where the script's environment has it and it is loaded."""
    return sys.modules.get("numpy.random")


def seed_all_ranks(seed: int) -> None:
    """What a script that sets no seed would draw at random is drawn alike by all ranks."""
    import random

    random.seed(seed)
    torch.manual_seed(seed)


def call_with_numpy(then: Callable[[Any], None]) -> None:
    """`then(numpy.random)`, now or once the script has loaded it."""
    call_after_import("numpy.random", then)


class RandomStreams:
    """`own`: the generators hold the rank's own stream. `loading`: a data set draws from it, for single samples."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self.own = False
        self.loading = False
        self._other: tuple[Any, Any] | None = None
        self._python: Any = None
        self._numpy: Any = None

    def use(self, own: bool) -> None:
        """Torch's generators go on with that stream."""
        if own == self.own:
            return
        wanted = self._other or self._first_own_state()
        cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
        self._other = (torch.get_rng_state(), torch.cuda.get_rng_state() if cuda else None)
        torch.set_rng_state(wanted[0])
        if cuda:
            if wanted[1] is not None:
                torch.cuda.set_rng_state(wanted[1])
            else:
                torch.cuda.manual_seed(self._seed() if own else torch.initial_seed())
        self.own = own

    def _seed(self) -> int:
        seed: int = torch.initial_seed()
        return (seed + (self._training.rank + 1) * _GOLDEN) & _MASK

    def _first_own_state(self) -> tuple[Any, Any]:
        return torch.Generator().manual_seed(self._seed()).get_state(), None

    def use_own_python(self) -> None:
        """Python's and numpy's generators, of which data sets' transformations draw in the script's own process."""
        import random

        numpy = numpy_random()
        former = (random.getstate(), numpy.get_state() if numpy else None)
        if self._python is None:
            random.seed(self._seed())
            if numpy:
                numpy.seed(self._seed() % (1 << 32))
        else:
            random.setstate(self._python[0])
            if numpy and self._python[1] is not None:
                numpy.set_state(self._python[1])
        self._numpy = former

    def use_shared_python(self) -> None:
        """Back, where `use_own_python` was called."""
        if self._numpy is None:
            return
        import random

        numpy = numpy_random()
        self._python = (random.getstate(), numpy.get_state() if numpy else None)
        random.setstate(self._numpy[0])
        if numpy and self._numpy[1] is not None:
            numpy.set_state(self._numpy[1])
        self._numpy = None

    def agree(self, world: Communicator, generators: list[Any]) -> None:
        """The shared stream goes on as rank 0's, and so do `generators`, the loader's own."""
        import random

        numpy = numpy_random()
        version, words, gauss = random.getstate()
        states = [torch.get_rng_state(), *(generator.get_state() for generator in generators)]
        numbers = [float(word) for word in words] + [gauss or 0.0, float(gauss is not None)]
        if numpy:
            kind, keys, position, has_gauss, cached = numpy.get_state()
            numbers += [*map(float, keys), float(position), float(has_gauss), cached]
        packed = torch.cat([*states, torch.tensor(numbers, dtype=torch.float64).view(torch.uint8)])
        world.broadcast_from_first(packed)
        rows = packed.split([len(state) for state in states] + [8 * len(numbers)])
        torch.set_rng_state(rows[0].clone())
        for generator, row in zip(generators, rows[1:-1]):
            generator.set_state(row.clone())
        found = rows[-1].clone().view(torch.float64).tolist()
        count = len(words)
        random.setstate((version, tuple(map(int, found[:count])), found[count] if found[count + 1] else None))
        if numpy:
            tail = found[count + 2 :]
            keys[:] = tail[: len(keys)]
            position, has_gauss, cached = tail[len(keys) :]
            numpy.set_state((kind, keys, int(position), int(has_gauss), cached))
