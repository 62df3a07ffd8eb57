"""One rank sends its metrics to a server that accepts the request and does not answer."""

import socket
import urllib.request

import torch.distributed as dist
from model import batch, ddp, start
from ranks import STEPS, about_to_hang, hangs, say

start()
net, optimizer = ddp()
for step in range(STEPS):
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
    if hangs(step):
        listener = socket.create_server(("127.0.0.1", 0))
        about_to_hang()
        urllib.request.urlopen("http://127.0.0.1:%d/metrics" % listener.getsockname()[1])  # here
dist.destroy_process_group()
