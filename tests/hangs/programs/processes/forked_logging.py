"""A child is forked while a thread holds a lock of a library; it needs that lock, and its parent joins it."""

import multiprocessing
import threading

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

buffer = threading.Lock()


def hold(held: threading.Event) -> None:
    with buffer:
        held.set()
        threading.Event().wait(2)


def convert() -> None:
    with buffer:  # child
        say("converted")


start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        held = threading.Event()
        threading.Thread(target=hold, args=(held,), daemon=True).start()
        held.wait()
        child = multiprocessing.get_context("fork").Process(target=convert)
        child.start()
        about_to_hang()
        child.join()  # here
dist.destroy_process_group()
