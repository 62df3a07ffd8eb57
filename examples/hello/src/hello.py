"""Every rank says who it is, the way the Slurm tutorial prints it.

    worldsize run examples/hello/job.yml            2 nodes × 2 ranks
    worldsize run examples/hello/job.yml -w 1x8     1 node × 8 ranks

Rank 0 prints what the launcher set and, once all ranks have met, `Group initialized? True`; every rank prints where it
runs. "Allocated GPUs" is what Slurm allocated on the node, elsewhere what torch sees.
"""

from __future__ import annotations

import os
import socket
import sys

import torch
import torch.distributed as dist


def say(line: str) -> None:
    """One write for the whole line: lines of ranks that share a terminal do not run into each other."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local_rank = int(os.environ["LOCAL_RANK"])
    gpus = int(os.environ.get("SLURM_GPUS_ON_NODE") or torch.cuda.device_count())
    host = socket.gethostname()
    if rank == 0:
        say("WORLD_SIZE=%(WORLD_SIZE)s MASTER_PORT=%(MASTER_PORT)s MASTER_ADDR=%(MASTER_ADDR)s" % os.environ)
    say("Hello from rank %d of %d on %s where there are %d allocated GPUs per node." % (rank, world_size, host, gpus))

    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    if rank == 0:
        say("Group initialized? %s" % dist.is_initialized())
    dist.barrier()
    say("host: %s, rank: %d, local_rank: %d" % (host, rank, local_rank))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
