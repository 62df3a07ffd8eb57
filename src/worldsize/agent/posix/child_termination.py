"""A child of this process that is to end now: TERM, and KILL once its grace is over."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable

from worldsize.common.termination import Termination

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def terminate_child(process: subprocess.Popen[Any], send: Callable[[int], None], grace: float) -> None:
    """Return once the child has ended, or has outlived KILL by the grace. `send`: signal whatever is to end with it.

    Nothing is sent to a child that has ended.
    """
    end = Termination()
    end.request(time.monotonic(), grace)
    due = None
    while due != signal.SIGKILL and process.poll() is None:
        due = end.signal_due(time.monotonic())
        if due is not None:
            send(due)
        try:
            process.wait(grace)
        except subprocess.TimeoutExpired:
            continue
