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

import torch.distributed as dist
from torch import nn

for new, old in (("RANK", "OMPI_COMM_WORLD_RANK"), ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE"), ("RANK", "SLURM_PROCID"),
                 ("WORLD_SIZE", "SLURM_NTASKS")):  # fmt: skip
    if new not in os.environ and old in os.environ:
        os.environ[new] = os.environ[old]
if len(sys.argv) > 2:
    importlib.import_module(sys.argv[2])


def own_memory() -> int:
    """Bytes, shared ones by their share."""
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))


def main() -> None:
    dist.init_process_group("gloo")
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
