"""One rank waits for an asynchronous receive that rank 0 has not matched; all have also begun an all_reduce."""

import torch
import torch.distributed as dist
from model import start
from ranks import STEPS, about_to_hang, hangs, say

start()
for step in range(STEPS):
    value = torch.ones(4)
    if hangs(step):
        request = dist.irecv(torch.ones(4), 0)
        about_to_hang()
        assert request is not None
        request.wait()  # here
    work = dist.all_reduce(value, async_op=True)
    assert work is not None
    work.wait()  # others
    say("step %d" % step)
dist.destroy_process_group()
