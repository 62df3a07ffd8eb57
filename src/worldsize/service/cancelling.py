"""Asking for the end of a run or an array, so that its directory says so exactly when somebody was told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from worldsize.plan.files import write_once
from worldsize.plan.paths import RunPaths


def ask_to_end(paths: RunPaths, tell: Callable[[], None]) -> None:
    """`tell` whoever runs it. Where that fails, or is interrupted, the run is not marked as cancelled by us: it goes
    on, and its state says so. A compute that was told all the same says that it was cancelled."""
    ours = False
    try:
        ours = write_once(paths.cancel, {"time": time.time(), "pid": os.getpid()})
    except OSError:
        pass  # a full disk: the agents will still be told, and say themselves that they were cancelled
    try:
        tell()
    except BaseException:
        if ours and os.path.exists(paths.cancel):
            os.unlink(paths.cancel)
        raise
