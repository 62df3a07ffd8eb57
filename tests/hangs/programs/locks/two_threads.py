"""Two threads of one rank take two locks in opposite orders."""

import threading

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

weights, metrics = threading.Lock(), threading.Lock()
first, second = threading.Event(), threading.Event()


def publish() -> None:
    with metrics:
        second.set()
        first.wait()
        with weights:  # thread
            say("published")


start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    if hangs(step):
        threading.Thread(target=publish, daemon=True).start()
        with weights:
            first.set()
            second.wait()
            about_to_hang()
            with metrics:  # here
                optimizer.step()
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
