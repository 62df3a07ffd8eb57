"""A thread of one rank waits in a library without having released the interpreter's lock."""

import ctypes
import threading
import time

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say


def upload() -> None:
    time.sleep(0.5)
    ctypes.PyDLL(None).sleep(1_000_000)  # thread


start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        uploading = threading.Thread(target=upload, daemon=True)
        uploading.start()
        about_to_hang()
        uploading.join()  # here
dist.destroy_process_group()
