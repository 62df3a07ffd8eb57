"""All ranks are stopped and go on later, as those of a suspended job or machine; with --phase one, the slow rank."""

import os
import subprocess

import torch.distributed as dist
from model import batch, ddp, start
from pace import DURATION, SLOW_AT, STEPS
from ranks import CULPRIT, RANK, WORLD, say, words

start()
net, optimizer = ddp()
pids: list[int] = [0] * WORLD
dist.all_gather_object(pids, os.getpid())
stopper = None
for step in range(STEPS):
    if step == SLOW_AT and RANK == 0:
        names = " ".join(map(str, [pids[CULPRIT]] if words.phase == "one" else pids))
        command = "kill -STOP %s; sleep %g; kill -CONT %s" % (names, DURATION, names)
        stopper = subprocess.Popen(["sh", "-c", command])
        stopper.wait()
    loss = net(batch(step)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
