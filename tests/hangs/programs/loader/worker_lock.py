"""A worker is forked while a thread of its parent holds a lock; in the worker nobody will release it."""

import threading
import time

import torch.distributed as dist
from model import SIZE, Samples, ddp, start
from ranks import about_to_hang, is_culprit, say
from torch.utils.data import DataLoader

cache = threading.Lock()


def refresh(held: threading.Event) -> None:
    with cache:
        held.set()
        time.sleep(3)


class Cached(Samples):
    def fetch(self, index: int) -> None:
        if is_culprit():
            about_to_hang()
            cache.acquire()  # here
            cache.release()


start()
net, optimizer = ddp()
if is_culprit():
    is_held = threading.Event()
    threading.Thread(target=refresh, args=(is_held,), daemon=True).start()
    is_held.wait()
for step, x in enumerate(DataLoader(Cached(), batch_size=SIZE, num_workers=1)):  # parent
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
