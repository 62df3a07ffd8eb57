"""What one rank does with the result of an asynchronous all_reduce, in a callback, waits for ever."""

import threading

import torch
import torch.distributed as dist
from model import start
from ranks import STEPS, about_to_hang, hangs, say


def scale(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
    if hangs(now):
        about_to_hang()
        threading.Event().wait()  # here
    return future.value()[0] / dist.get_world_size()


start()
for step in range(STEPS):
    now = step
    work = dist.all_reduce(torch.ones(4), async_op=True)
    assert work is not None
    result = work.get_future().then(scale)
    result.wait()  # caller
    dist.barrier()  # others
    say("step %d" % step)
dist.destroy_process_group()
