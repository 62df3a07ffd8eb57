"""One rank's main thread has ended, and a thread that is no daemon goes on; the others are at the last barrier."""

import threading

import torch.distributed as dist
from model import batch, ddp, start
from ranks import AT, about_to_hang, is_culprit, say


def upload() -> None:
    about_to_hang()
    threading.Event().wait()  # here


start()
net, optimizer = ddp()
for step in range(AT):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
if is_culprit():
    threading.Thread(target=upload).start()
else:
    dist.barrier()  # others
