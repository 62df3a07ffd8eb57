"""Mixed precision: `cuda` regions become the CPU's, in bfloat16, since float16 is slow there or not at all."""

from __future__ import annotations

import functools

from .caller import is_called_by_torch
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def install() -> None:
    _patch_autocast()
    _patch_grad_scaler()


def _patch_autocast() -> None:
    begin = torch.amp.autocast.__init__

    @functools.wraps(begin)
    def __init__(self: Any, device_type: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if isinstance(device_type, str) and device_type.partition(":")[0] == "cuda":
            device_type = "cpu"
            dtype = torch.bfloat16 if dtype in (None, torch.float16) else dtype
        begin(self, device_type, dtype, *args, **kwargs)

    torch.amp.autocast.__init__ = __init__
    ask = torch.is_autocast_enabled

    def is_autocast_enabled(*args: Any, **kwargs: Any) -> bool:
        """Of the CPU, where a script asks after the GPU's."""
        device = args[0] if args else kwargs.get("device_type", "cuda")
        if device == "cuda" and not is_called_by_torch():
            return bool(torch.is_autocast_cpu_enabled())
        return bool(ask(*args, **kwargs))

    torch.is_autocast_enabled = is_autocast_enabled


def _patch_grad_scaler() -> None:
    """It scales, looks for infinities, and finds none: bfloat16 has float32's range."""
    scaler = getattr(torch.amp, "GradScaler", None)
    if scaler is None:
        return
    begin = scaler.__init__

    @functools.wraps(begin)
    def __init__(self: Any, device: Any = "cuda", *args: Any, **kwargs: Any) -> None:
        begin(self, "cpu" if str(device).partition(":")[0] == "cuda" else device, *args, **kwargs)

    scaler.__init__ = __init__
