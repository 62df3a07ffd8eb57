"""Random numbers that are the same on every rank that draws them.

Each sample of a data set is drawn with its own seed. Numbers that a pass draws with torch for its batch (noise, time
steps) are drawn for one sample and repeated, so that a part of a batch gets the same numbers as the whole batch.
"""

from __future__ import annotations

import random
import sys
import zlib
from typing import Any, Callable

import torch

_OF_SIZE = ("rand", "randn", "randint")
_LIKE = ("rand_like", "randn_like", "randint_like", "bernoulli", "poisson")


class _Pass:
    count: Any = None
    """The number of random draws in the current pass; None before the first batch."""


_pass = _Pass()


def random_state() -> Any:
    numpy: Any = sys.modules.get("numpy")
    of_numpy = repr(numpy.random.get_state()[1:3]) if numpy is not None else ""
    return hash(tuple(torch.get_rng_state().tolist())), random.getstate(), of_numpy


def set_seeds(seed: int) -> None:
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


class Seeded:
    """A context in which the numbers that Python's, torch's and NumPy's random generators draw follow from a key. The
    generators get their previous state back afterwards."""

    def __init__(self, key: Any) -> None:
        self._seed = zlib.crc32(repr(key).encode())

    def __enter__(self) -> None:
        numpy: Any = sys.modules.get("numpy")
        of_numpy = None if numpy is None else numpy.random.get_state()
        self._kept = (random.getstate(), torch.get_rng_state(), of_numpy)
        set_seeds(self._seed)

    def __exit__(self, *error: Any) -> None:
        own, of_torch, of_numpy = self._kept
        random.setstate(own)
        torch.set_rng_state(of_torch)
        if of_numpy is not None:
            sys.modules["numpy"].random.set_state(of_numpy)


def begin_pass() -> None:
    _pass.count = 0


def were_drawn() -> bool:
    """Return whether the recorded training has drawn random numbers since the beginning of the current pass."""
    return bool(_pass.count)


def install() -> None:
    for name in _OF_SIZE:
        setattr(torch, name, _repeated(getattr(torch, name), _with_one_row))
    for name in _LIKE:
        setattr(torch, name, _repeated(getattr(torch, name), _of_first_row))
    torch.normal = _repeated(torch.normal, _of_first_row)


def _repeated(function: Any, shorten: Callable[[Any, Any], Any]) -> Any:
    def draw(*values: Any, **options: Any) -> Any:
        shortened = shorten(values, options) if _pass.count is not None and torch.is_grad_enabled() else None
        if shortened is None or options.get("generator") is not None or options.get("out") is not None:
            return function(*values, **options)
        _pass.count += 1
        rows, values, options = shortened
        with Seeded(_pass.count):
            drawn = function(*values, **options)
        return drawn.detach().repeat(rows, *[1] * (drawn.dim() - 1)).requires_grad_(drawn.requires_grad)

    return draw


def _with_one_row(values: Any, options: Any) -> Any:
    """Return three values for a call that draws random numbers of a given shape, such as `torch.randn(8, 3)`: the
    number of rows, and the positional and keyword arguments that draw a single row. None for a shape without rows."""
    if "size" in options:
        size = list(options["size"])
        return (size[0], values, {**options, "size": [1, *size[1:]]}) if size else None
    if values and isinstance(values[-1], (list, tuple)):
        size = list(values[-1])
        return (size[0], (*values[:-1], [1, *size[1:]]), options) if size else None
    return (values[0], (1, *values[1:]), options) if values else None


def _of_first_row(values: Any, options: Any) -> Any:
    rows = {len(each) for each in values if isinstance(each, torch.Tensor) and each.dim()}
    if len(rows) != 1 or rows == {0}:
        return None
    first = tuple(each[:1] if isinstance(each, torch.Tensor) and each.dim() else each for each in values)
    return (rows.pop(), first, options)
