"""One training step of a small model, by gloo: python first_step.py FOLDER [MODULE].

Each rank writes to FOLDER when its first step was done, how much CPU it had used by then, and how much memory is its
own (PSS), measured while all ranks are there. MODULE is imported as well, as a script would.
"""

import torch  # isort: skip
import importlib
import json
import os
import sys
import time
from collections.abc import Sequence

import torch.distributed as dist
from torch import nn

RANKS, WORLDS = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")

if len(sys.argv) > 2:
    importlib.import_module(sys.argv[2])


def own_memory() -> int:
    """Bytes, shared ones by their share."""
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))


def place(names: Sequence[str]) -> int:
    """The number that the launcher has put into the first of these variables."""
    return int(next(os.environ[name] for name in names if name in os.environ))


def main() -> None:
    dist.init_process_group("gloo", rank=place(RANKS), world_size=place(WORLDS))
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(32, 64)).square().mean()
    loss.backward()
    optimizer.step()
    done, cpu = time.time(), time.process_time()
    dist.barrier()
    memory = own_memory()
    dist.barrier()
    with open(os.path.join(sys.argv[1], "rank-%d.json" % dist.get_rank()), "w") as file:
        json.dump({"done": done, "cpu": cpu, "memory": memory}, file)
    dist.destroy_process_group()


main()
