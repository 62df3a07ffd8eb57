"""One rank destroys its process group while its model still holds it, and waits for its threads to end."""

import threading

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

start()
net, optimizer = ddp()
for step in range(STEPS):
    if hangs(step):
        uploads = threading.Thread(target=threading.Event().wait, daemon=True)
        uploads.start()
        dist.destroy_process_group()
        about_to_hang()
        uploads.join()  # here
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
