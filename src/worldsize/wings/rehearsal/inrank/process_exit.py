"""The end of a script that leaves its process group to the interpreter, as many written for NCCL do: gloo's threads
sometimes abort the process then, after all its work is done. So the group is destroyed; what keeps it even then, the
hook of every rank lets go after that (`sitecustomize`).

After an uncaught exception nothing is done: others may wait for this process, and it is to end at once.
"""

from __future__ import annotations

import atexit
import gc
import sys

from .torch_module import torch


def install() -> None:
    """Before what the script itself registers, so that it comes later."""
    atexit.register(_destroy_group)


def _destroy_group() -> None:
    if getattr(sys, "last_type", None) is not None or not torch.distributed.is_initialized():
        return
    gc.collect()
    try:
        torch.distributed.destroy_process_group()
    except (RuntimeError, ValueError, AssertionError):
        pass  # it ends with the process
