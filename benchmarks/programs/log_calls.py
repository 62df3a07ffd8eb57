"""What one logged value costs the thread that logs it: `log_calls.py WAY COUNT ROUNDS`, in a rank or outside a run.

Prints, as JSON, microseconds of a call of each round: wall time and the CPU time of the thread. After each call the
thread sleeps, as a step of a training leaves time to the threads that write.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

PAUSE = 0.0002


def worldsize_log() -> Callable[[int], Any]:
    import worldsize

    return lambda step: worldsize.log(step=step, loss=0.5)


def worldsize_log_tensor() -> Callable[[int], Any]:
    import torch

    import worldsize

    loss = torch.tensor(0.5, requires_grad=True)
    return lambda step: worldsize.log(step=step, loss=loss)


def mlflow_metric() -> Callable[[int], Any]:
    import mlflow

    mlflow.start_run()
    return lambda step: mlflow.log_metric("loss", 0.5, step=step)


def mlflow_plain_metric() -> Callable[[int], Any]:
    """MLflow's own file store, somewhere else."""
    import mlflow

    mlflow.set_tracking_uri("file://" + tempfile.mkdtemp() + "/mlruns")
    return mlflow_metric()


def tensorboard_scalar() -> Callable[[int], Any]:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(tempfile.mkdtemp())
    return lambda step: writer.add_scalar("loss", 0.5, step)


WAYS = (worldsize_log, worldsize_log_tensor, mlflow_metric, mlflow_plain_metric, tensorboard_scalar)


def main() -> None:
    way, count, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    call = {each.__name__: each for each in WAYS}[way]()
    call(0)
    print(json.dumps([measured(call, count) for _ in range(rounds)]))


def measured(call: Callable[[int], Any], count: int) -> list[float]:
    wall = thread = 0.0
    for step in range(count):
        began, began_thread = time.perf_counter(), time.thread_time()
        call(step)
        thread += time.thread_time() - began_thread
        wall += time.perf_counter() - began
        time.sleep(PAUSE)
    return [wall / count * 1e6, thread / count * 1e6]


if __name__ == "__main__":
    main()
