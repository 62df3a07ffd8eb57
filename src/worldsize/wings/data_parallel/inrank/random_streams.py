"""Two streams of random numbers: one that all ranks share, and one of each rank's own.

From the shared stream comes what a single process would draw once for the whole batch: shuffling, noise, initial
weights. From its own a rank draws what is for its samples alone: dropout, augmentation. The generators hold one of them
at a time.

Noise that a script draws for its batch (`torch.randn(len(x), …)`, `torch.randn_like(x)`) is drawn for the whole batch
from the shared stream, and each rank takes the rows of its samples: what is drawn is what a single process draws.
"""

from __future__ import annotations

import random
import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence, Tuple

import torch

from .figures.batch_size import BatchSize, local_number
from .rank_state import Training, replace

_MASK = (1 << 63) - 1
_GOLDEN = 0x9E3779B97F4A7C15

Shape = Tuple[int, ...]

is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)

_FILLING = ("normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "geometric_", "cauchy_")
_NUMPY = ("normal", "uniform", "randint", "random", "random_sample", "standard_normal")


def _python_state() -> tuple[Any, Any]:
    """The state of Python's generator, and of numpy's where the script has loaded it."""
    numpy = sys.modules.get("numpy.random")
    return random.getstate(), numpy.get_state() if numpy else None


def _set_python_state(python: Any, numpy: Any) -> None:
    """Set the states of both generators; numpy's only where both ranks have it: a library may load it on one rank and
    not on another."""
    random.setstate(python)
    loaded = sys.modules.get("numpy.random")
    if loaded is not None and numpy is not None:
        loaded.set_state(numpy)


class RandomStreams:
    """The streams of a rank. `own`: the generators hold the rank's own stream. `loading`: a data set draws from it, for
    single samples."""

    def __init__(self, training: Training) -> None:
        self._training = training
        self.own = False
        self.loading = False
        self._other: tuple[Any, Any] | None = None
        self._own_python: tuple[Any, Any] | None = None
        self._shared_python: tuple[Any, Any] | None = None

    def use(self, own: bool) -> None:
        """Make torch's generators go on with the rank's own stream, or with the shared one."""
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
        """Draw from the shared stream within it."""
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
        """Make Python's and numpy's generators, from which data sets' transformations draw in the script's own process,
        go on with the rank's own stream."""
        self._shared_python = _python_state()
        if self._own_python is not None:
            _set_python_state(*self._own_python)
            return
        random.seed(self._seed())
        if self._shared_python[1] is not None:
            sys.modules["numpy.random"].seed(self._seed() % (1 << 32))

    def use_shared_python(self) -> None:
        """Make them go on with the shared stream again, where `use_own_python` was called."""
        if self._shared_python is not None:
            self._own_python = _python_state()
            _set_python_state(*self._shared_python)
            self._shared_python = None

    def agree(self, generators: list[Any]) -> None:
        """Make the shared stream, and `generators`, which are the loader's own, go on as rank 0's."""
        python, numpy = _python_state()
        numpy = numpy and (numpy[0], numpy[1].tolist(), *numpy[2:])
        states = [torch.get_rng_state(), *(generator.get_state() for generator in generators)]
        mine = (python, numpy, [state.tolist() for state in states])
        (version, words, gauss), numpy, states = self._training.world.value_from_first(mine)
        _set_python_state((version, tuple(words), gauss), numpy)
        torch.set_rng_state(torch.tensor(states[0], dtype=torch.uint8))
        for generator, state in zip(generators, states[1:]):
            generator.set_state(torch.tensor(state, dtype=torch.uint8))


class RandomPatches:
    def __init__(
        self,
        training: Training,
        streams: RandomStreams,
        note_rows: Callable[[Any], Any],
        is_following: Callable[[], bool],
    ) -> None:
        """`note_rows`: called with each tensor that holds a number for each of the slice's samples. `is_following`:
        whether the batch's sizes are known as such, and not, as inside models, plain numbers."""
        self._training = training
        self._streams = streams
        self._note_rows = note_rows
        self._is_following = is_following

    def install(self) -> None:
        for name in ("randn", "rand"):
            replace(torch, name, self._sizes_given)
        for name in ("randn_like", "rand_like", "randint_like"):
            replace(torch, name, self._tensor_given)
        for name in _FILLING:
            replace(torch.Tensor, name, self._fill)
        replace(torch, "randint", self._size_given)
        replace(torch, "normal", self._normal)
        for name in ("randperm", "multinomial", "bernoulli", "poisson"):
            replace(torch, name, self._alike)

    def install_numpy(self, numpy: Any) -> None:
        for name in _NUMPY:
            replace(numpy, name, self._size_given)
        for name in ("randn", "rand"):
            replace(numpy, name, self._sizes_given)

    def _is_unaffected(self) -> bool:
        """Whether the generators hold the shared stream, and the script has no slice: nothing is to be done."""
        if is_compiling() or self._training.mode != "split" or self._streams.loading:
            return True
        return not (self._streams.own or (self._training.batch.sliced and self._training.active))

    def _draw(self, size: Sequence[int], draw: Callable[[Shape], Any]) -> Any:
        """`draw(shape)` from the shared stream; where the size is a slice's, this rank's rows of a draw for the whole
        batch."""
        batch, own = self._training.batch, self._streams.own
        shape = tuple(map(local_number, size))
        is_known = bool(size) and (type(size[0]) is BatchSize or not self._is_following())
        self._streams.use(False)
        try:
            if not batch.sliced or shape[:1] != (batch.local,) or not is_known:
                return draw(shape)
            with torch.no_grad():
                whole = draw((batch.total, *shape[1:]))
        finally:
            self._streams.use(own)
        return self._note_rows(whole[self._training.rank * batch.local :][: batch.local])

    def _alike(self, original: Any, *values: Any, **keywords: Any) -> Any:
        """Draw what belongs to no batch, alike on all ranks."""
        if self._is_unaffected():
            return original(*values, **keywords)
        return self._draw((), lambda _: original(*values, **keywords))

    def _sizes_given(self, original: Any, *size: Any, **keywords: Any) -> Any:
        """`randn(8, 3)`, `randn((8, 3))`, `randn(())`"""
        shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
        known = size and all(isinstance(part, int) for part in shape)
        if known and not _is_of_numpy(original):
            local = tuple(map(local_number, shape))
            size = (local,) if len(size) == 1 and isinstance(size[0], (tuple, list)) else local
        elif known:
            shape = tuple(map(int, shape))
        if not known or self._is_unaffected() or keywords.get("out") is not None:
            return original(*size, **keywords)
        wants_gradient = keywords.pop("requires_grad", False)
        drawn = self._draw(shape, lambda shape: original(*(shape or size), **keywords))
        return drawn.clone().requires_grad_() if wants_gradient else drawn

    def _size_given(self, original: Any, *values: Any, **keywords: Any) -> Any:
        """`randint(0, 9, (8, 3))`, `normal(0, 1, size=(8, 3))`"""
        size = keywords.get("size", values[-1] if values else None)
        if isinstance(size, (tuple, list)) and _is_of_numpy(original):
            size = tuple(map(int, size))
        elif isinstance(size, (tuple, list)):
            local = tuple(map(local_number, size))
            values = values if "size" in keywords else (*values[:-1], local)
            keywords = {**keywords, "size": local} if "size" in keywords else keywords
        if not isinstance(size, (tuple, list)) or self._is_unaffected() or "out" in keywords:
            return original(*values, **keywords)
        if "size" in keywords:
            return self._draw(size, lambda shape: original(*values, **{**keywords, "size": shape}))
        return self._draw(size, lambda shape: original(*values[:-1], shape, **keywords))

    def _tensor_given(self, original: Any, tensor: Any, *values: Any, **keywords: Any) -> Any:
        """`randn_like(x)`"""
        if self._is_unaffected():
            return original(tensor, *values, **keywords)
        return self._draw(tensor.shape, lambda shape: original(_with_shape(tensor, shape), *values, **keywords))

    def _fill(self, original: Any, tensor: Any, *values: Any, **keywords: Any) -> Any:
        """`x.normal_()`"""
        drawn = self._tensor_given(original, tensor, *values, **keywords)
        if self._is_unaffected() or drawn is tensor:
            return drawn
        with torch.no_grad():
            return tensor.copy_(drawn)

    def _normal(self, original: Any, *values: Any, **keywords: Any) -> Any:
        tensors = [value for value in (*values, *keywords.values()) if isinstance(value, torch.Tensor)]
        if not tensors:
            return self._size_given(original, *values, **keywords)
        if self._is_unaffected() or keywords or len(tensors) != 2 or tensors[0].shape != tensors[1].shape:
            return self._alike(original, *values, **keywords)
        mean, deviation = (tensor.detach() for tensor in tensors)
        return mean + deviation * torch.randn_like(mean)


def _is_of_numpy(draw: Any) -> bool:
    """Whether it makes an array, which is for the whole batch if its size is."""
    numpy = sys.modules.get("numpy.random")
    return numpy is not None and isinstance(getattr(draw, "__self__", None), numpy.RandomState)


def _with_shape(tensor: Any, shape: Shape) -> Any:
    """A tensor of that shape, otherwise like `tensor`; `tensor` itself where the shape is its own."""
    return (
        tensor
        if tuple(map(local_number, tensor.shape)) == shape
        else torch.empty(shape, dtype=tensor.dtype, device=tensor.device)
    )
