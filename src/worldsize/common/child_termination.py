"""The termination of one child of this process: TERM, and KILL once its grace period is over."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable

from worldsize.common.named_tuple import Any
from worldsize.common.termination import Termination


def terminate_child(process: subprocess.Popen[Any], send: Callable[[int], None], grace: float) -> None:
    """Terminate the child process `process`: send TERM now, and KILL after `grace` seconds. Return once it has ended,
    or has outlived KILL by `grace` seconds.

    `send` sends a signal to the child, and to the processes that must end with it. It is not called for a child that
    has ended.
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
