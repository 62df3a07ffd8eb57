"""All ranks save a checkpoint together; the shard of one is a pipe that nobody reads, and the others wait for it."""

import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoints
from model import start
from ranks import AT, RANK, STEPS, about_to_hang, hangs, say
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

start()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
weight = distribute_tensor(torch.ones(8, 4), mesh, [Shard(0)])
for step in range(STEPS):
    folder = "step-%d" % step
    if hangs(step):
        os.makedirs(folder, exist_ok=True)
        os.mkfifo(os.path.join(folder, "__%d_0.distcp" % RANK))
        about_to_hang()
        checkpoints.save({"weight": weight}, checkpoint_id=folder)  # here
    elif step == AT:
        checkpoints.save({"weight": weight}, checkpoint_id=folder)  # others
    dist.barrier()
    say("step %d" % step)
dist.destroy_process_group()
