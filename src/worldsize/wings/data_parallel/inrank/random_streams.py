"""Two streams of random numbers: one that all ranks share, and one that belongs to each rank.

The shared stream provides the numbers that a single process would draw once for the whole batch, for shuffling, noise
and initial weights. The rank's own stream provides the numbers for its samples alone, for dropout and augmentation. The
generators hold one of the two streams at a time.
"""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from typing import Any, Iterator

import torch

from .rank_state import Training

_MASK = (1 << 63) - 1
_GOLDEN = 0x9E3779B97F4A7C15

is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


def _python_state() -> tuple[Any, Any]:
    """Return the states of the random generators of Python and of numpy. The second is None if the script has not
    loaded numpy."""
    numpy = sys.modules.get("numpy.random")
    return random.getstate(), numpy.get_state() if numpy else None


def _set_python_state(python: Any, numpy: Any) -> None:
    """Set Python's random generator to the state `python`, and numpy's to `numpy`. Set numpy's only if both ranks have
    loaded it, since a library may load numpy on one rank and not on another."""
    random.setstate(python)
    loaded = sys.modules.get("numpy.random")
    if loaded is not None and numpy is not None:
        loaded.set_state(numpy)


class RandomStreams:
    """The random streams of a rank. `own` is true while the generators hold the rank's own stream. `loading` is true
    while a data set draws from it for single samples."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self.own = False
        self.loading = False
        self._other: tuple[Any, Any] | None = None
        self._own_python: tuple[Any, Any] | None = None
        self._shared_python: tuple[Any, Any] | None = None

    def use(self, own: bool) -> None:
        """Switch torch's random generators to the rank's own stream if `own` is true, else to the stream that all ranks
        share."""
        if own == self.own:
            return
        wanted = self._other or (torch.Generator().manual_seed(self._seed()).get_state(), None)
        cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
        self._other = (torch.get_rng_state(), torch.cuda.get_rng_state() if cuda else None)
        torch.set_rng_state(wanted[0])
        if cuda:
            if wanted[1] is not None:
                torch.cuda.set_rng_state(wanted[1])
            else:
                torch.cuda.manual_seed(self._seed() if own else torch.initial_seed())
        self.own = own

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Switch torch's random generators to the stream that all ranks share within the context, and back at its
        end."""
        own = self.own
        self.use(False)
        try:
            yield
        finally:
            self.use(own)

    def _seed(self) -> int:
        seed: int = torch.initial_seed()
        return (seed + (self._training.rank + 1) * _GOLDEN) & _MASK

    def use_own_python(self) -> None:
        """Switch the random generators of Python and numpy to the rank's own stream. Transformations of data sets draw
        from them in the script's own process."""
        self._shared_python = _python_state()
        if self._own_python is not None:
            _set_python_state(*self._own_python)
            return
        random.seed(self._seed())
        if self._shared_python[1] is not None:
            sys.modules["numpy.random"].seed(self._seed() % (1 << 32))

    def use_shared_python(self) -> None:
        """Switch the random generators of Python and numpy back to the stream that all ranks share, if `use_own_python`
        was called."""
        if self._shared_python is not None:
            self._own_python = _python_state()
            _set_python_state(*self._shared_python)
            self._shared_python = None

    def agree(self, generators: list[Any]) -> None:
        """Set the random generators of Python, numpy and torch, and the data loader's own `generators`, to their state
        on rank 0. All ranks must call this."""
        python, numpy = _python_state()
        numpy = numpy and (numpy[0], numpy[1].tolist(), *numpy[2:])
        states = [torch.get_rng_state(), *(generator.get_state() for generator in generators)]
        mine = (python, numpy, [state.tolist() for state in states])
        (version, words, gauss), numpy, states = self._training.world.value_from_first(mine)
        _set_python_state((version, tuple(words), gauss), numpy)
        torch.set_rng_state(torch.tensor(states[0], dtype=torch.uint8))
        for generator, state in zip(generators, states[1:]):
            generator.set_state(torch.tensor(state, dtype=torch.uint8))
