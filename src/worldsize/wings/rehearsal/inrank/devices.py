"""The virtual GPUs of this process: the visible ones, the current one, and the check of an index."""

from __future__ import annotations

import os
import threading
from typing import Any, Optional

from . import messages
from .torch_module import torch

NAME = "Virtual GPU (worldsize rehearsal)"
MEMORY = 80 * 1024**3
CAPABILITY = (8, 0)
PROCESSORS = 108

CUDA_ERROR: Any = getattr(torch, "AcceleratorError", RuntimeError)


class _CudaState:
    """The state of CUDA in this process: `visible` contains its GPUs once CUDA has begun, `asked` records whether its
    runtime was used, `forked` whether the process was forked after that, `here` the current GPU of each thread."""

    visible: Optional[tuple[int, ...]] = None
    asked = False
    forked = False
    here = threading.local()


def node_gpu_count() -> int:
    """Return the number of virtual GPUs of the node, from WORLDSIZE_VIRTUAL_GPUS; 0 if that is not set."""
    return int(os.environ.get("WORLDSIZE_VIRTUAL_GPUS") or 0)


def visible_gpus() -> tuple[int, ...]:
    """Return the virtual GPUs that CUDA_VISIBLE_DEVICES makes visible to this process, as their numbers on the node.
    The result does not change once CUDA has begun."""
    known = _CudaState.visible
    return _parse_visible(os.environ.get("CUDA_VISIBLE_DEVICES")) if known is None else known


def _parse_visible(text: Optional[str]) -> tuple[int, ...]:
    """Return the numbers of the GPUs in `text`, the value of CUDA_VISIBLE_DEVICES; all GPUs of the node if it is None.
    It is parsed as the driver does: the first word that is no device and all that follow are ignored, and a repeated
    device makes none visible."""
    if text is None:
        return tuple(range(node_gpu_count()))
    found: list[int] = []
    for word in text.split(","):
        word = word.strip()
        if not word.isdigit() or int(word) >= node_gpu_count():
            break
        if int(word) in found:
            return ()
        found.append(int(word))
    return tuple(found)


def count() -> int:
    return len(visible_gpus())


def begin_cuda() -> None:
    """Begin the virtual CUDA of this process, at its first use: record the visible GPUs, which no longer change. Raise
    RuntimeError as `begin_runtime` does."""
    begin_runtime()
    _CudaState.visible = visible_gpus()


def begin_runtime() -> None:
    """Begin only the part of the virtual CUDA that torch's C++ code begins: `torch.cuda.is_initialized` stays false,
    and a device mesh still chooses the device. Raise RuntimeError if there is no GPU, or after a fork of a process that
    has used CUDA."""
    if _CudaState.forked:
        raise RuntimeError(messages.FORK)
    if not visible_gpus():
        raise RuntimeError(messages.NO_GPUS)
    _CudaState.asked = True


def has_begun() -> bool:
    return _CudaState.visible is not None and not _CudaState.forked


def is_in_bad_fork() -> bool:
    return _CudaState.forked


def ask_runtime() -> None:
    """Record that this process has queried the CUDA runtime, after which no fork of it can use CUDA. Nothing is
    recorded if PYTORCH_NVML_BASED_CUDA_CHECK is 1: then torch queries NVML instead."""
    if os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK") != "1":
        _CudaState.asked = True


def _after_fork() -> None:
    _CudaState.forked = _CudaState.asked or _CudaState.visible is not None


os.register_at_fork(after_in_child=_after_fork)


def valid_index(index: Optional[int]) -> int:
    """Return `index`, or the index of the current virtual GPU for None. Begin CUDA. Raise the error of CUDA if there is
    no GPU with that index."""
    begin_cuda()
    return _existing_index(index)


def _existing_index(index: Optional[int]) -> int:
    if index is None:
        return current_index()
    if not 0 <= index < count():
        raise CUDA_ERROR(messages.ORDINAL)
    return index


def current_index() -> int:
    """Return the index of the current virtual GPU of this thread. Each thread has its own; the initial value is 0."""
    return getattr(_CudaState.here, "index", 0)


def make_current(index: int) -> None:
    """Make the virtual GPU `index` the current one of this thread, and begin CUDA. A negative index changes nothing.
    Raise the error of CUDA if there is no such GPU."""
    if index >= 0:
        _CudaState.here.index = valid_index(index)


def index_of(device: Any, optional: bool = True) -> int:
    """Return the GPU's index that a `device` argument of torch.cuda (a string, torch.device, number or None) means,
    without checking that the GPU exists. It is that of the current GPU if `device` names none. Raise ValueError if
    `device` is no GPU, or is None and not `optional`."""
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if device.type != "cuda":
            raise ValueError(messages.EXPECTED_CUDA % device)
        return current_index() if device.index is None else int(device.index)
    if device is None and optional:
        return current_index()
    if not isinstance(device, int):
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return current_index() if device < 0 else int(device)


def valid_device(device: Any) -> int:
    """Return the GPU's index that a `device` argument of torch.cuda means, that of the current GPU for None. Begin
    CUDA, and raise its error if there is no such GPU."""
    return valid_index(index_of(device))


def runtime_device(device: Any) -> int:
    """Return the GPU's index that a `device` argument of torch.cuda means, after a check that this GPU exists. Unlike
    `valid_device`, begin only the runtime of CUDA."""
    begin_runtime()
    return _existing_index(index_of(device))


def find_index(device: Any) -> Optional[int]:
    """Return the index of the GPU that a `device` argument of a torch function names, after a check that it exists;
    None if `device` is not a GPU."""
    if isinstance(device, (str, torch.device)):
        return valid_device(device) if str(device).startswith("cuda") else None
    return valid_index(device) if isinstance(device, int) and not isinstance(device, bool) else None
