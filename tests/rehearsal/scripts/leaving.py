"""A script that leaves its model to the interpreter, and its process group too unless told to destroy it."""

import atexit
import os
import sys
import time

import torch
import torch.distributed as dist

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).cuda(), device_ids=[rank])
loss = model(torch.randn(8, 4, device="cuda")).sum()
loss.backward()
if sys.argv[1] == "destroy":
    dist.destroy_process_group()


def gloo_threads() -> int:
    return sum("gloo" in name_of(thread) for thread in os.listdir("/proc/self/task"))


def name_of(thread):
    try:
        return open("/proc/self/task/%s/comm" % thread).read()
    except OSError:  # it has ended meanwhile
        return ""


before = gloo_threads()
atexit._run_exitfuncs()
deadline = time.monotonic() + 60
while gloo_threads() and time.monotonic() < deadline:  # the kernel lists a joined thread for a moment more
    time.sleep(0.01)
print("threads", before > 0, gloo_threads())
