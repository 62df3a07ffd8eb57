"""The installation of the virtual functions in torch.cuda, and in its modules that have the same functions."""

from __future__ import annotations

import sys
from typing import Any

from .. import devices
from ..device_marks import CPU, mark_of
from ..torch_module import torch
from . import devices as cuda_devices
from . import memory, random_state, runtime, streams, tunable, types

_NVTX = ("range_push", "range_pop", "mark", "range_start", "range_end")


def install() -> None:
    cuda = torch.cuda
    everything: dict[str, Any] = {
        **cuda_devices.FUNCTIONS, **memory.FUNCTIONS, **random_state.FUNCTIONS, **streams.FUNCTIONS,
        **runtime.FUNCTIONS,
    }  # fmt: skip
    originals = {name: vars(cuda)[name] for name in everything if name in vars(cuda)}
    for module in (cuda, *_public_modules()):
        for name, original in originals.items():
            if vars(module).get(name) is original:
                setattr(module, name, everything[name])
    for module, functions in (
        (cuda.memory, memory.FUNCTIONS),
        (cuda.nvtx, dict.fromkeys(_NVTX, lambda *args, **kwargs: 0)),
        (cuda.profiler, dict.fromkeys(("start", "stop", "init"), cuda_devices.do_nothing)),
        (cuda.nccl, {"version": lambda: (2, 21, 5), "is_available": _is_nccl_possible}),
        (getattr(cuda, "tunable", None), tunable.FUNCTIONS),
        (cuda.amp.common, {"amp_definitely_not_available": _is_amp_missing}),
        (cuda.amp, {"amp_definitely_not_available": _is_amp_missing}),
    ):
        for name, function in functions.items():
            if hasattr(module, name):
                setattr(module, name, function)
    torch.autograd.profiler.emit_nvtx.__enter__ = lambda self: self
    torch.autograd.profiler.emit_nvtx.__exit__ = cuda_devices.do_nothing
    types.install()
    torch.Generator = random_state.Generator
    cuda.default_generators = random_state.default_generators
    cuda.has_magma = True


def _public_modules() -> list[Any]:
    names = [name for name in sys.modules if name.startswith("torch.cuda.") and "._" not in name]
    return [sys.modules[name] for name in names]


def _is_nccl_possible(tensors: Any) -> bool:
    """Return whether NCCL could work with `tensors`: each must be on a different virtual GPU, and none on the CPU or at
    an unknown place."""
    marks = [mark_of(each) for each in tensors]
    return None not in marks and CPU not in marks and len(set(marks)) == len(marks)


def _is_amp_missing() -> bool:
    return devices.count() == 0
