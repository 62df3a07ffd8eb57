"""Causes in what ranks say to each other: real with gloo and torch's store."""

from __future__ import annotations

from causes.case import Case

LONG = """import datetime, os, time

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
"""
"""A process group whose calls nothing in a case waits out."""
SHORT = (
    LONG
    + """dist.barrier()
dist.group.WORLD._get_backend(torch.device("cpu"))._set_default_timeout(datetime.timedelta(seconds=3))
"""
)
"""One whose calls time out after 3 s, once all ranks have met: they may take longer than that to begin."""

COMMUNICATION_CASES = (
    Case(
        "collective-mismatch",
        LONG + "dist.all_reduce(torch.ones(4 + 4 * rank))\n",
        ranks=(0, 1),
        needs=("torch",),
        keys={"environment_variables": {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}},
        variant="sizes differ",
        varies=True,
    ),
    Case(
        "collective-mismatch",
        LONG
        + """if rank == 1:
    dist.broadcast(torch.ones(4), 0)
else:
    dist.all_reduce(torch.ones(4))
""",
        ranks=(0, 1),
        needs=("torch",),
        keys={"environment_variables": {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}},
        variant="calls differ",
        varies=True,
    ),
    Case(
        "collective-mismatch",
        LONG
        + """if rank == 0:
    dist.send(torch.ones(8), 1)
    time.sleep(60)
else:
    dist.recv(torch.ones(4), 0)
""",
        ranks=(1,),
        needs=("torch",),
        variant="gloo's own words",
    ),
    Case(
        "barrier-missed",
        LONG
        + """if rank != 1:
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=2))
time.sleep(60)
""",
        ranks=(1,),
        needs=("torch",),
    ),
    Case(
        "world-size-mismatch",
        """import datetime, os, time

import torch.distributed as dist

dist.init_process_group(
    "gloo", rank=int(os.environ["RANK"]), world_size=3, timeout=datetime.timedelta(seconds=2)
)
""",
        needs=("torch",),
    ),
    Case(
        "group-not-initialised",
        """import os, time

import torch
import torch.distributed as dist

if os.environ["RANK"] == "0":
    dist.all_reduce(torch.ones(4))
time.sleep(60)
""",
        needs=("torch",),
    ),
    Case(
        "collective-timeout",
        SHORT
        + """if rank == 2:
    time.sleep(60)
dist.all_reduce(torch.ones(4))
""",
        "supported",
        ranks=(2,),
        world="2x2",
        needs=("torch",),
        varies=True,
    ),
    Case(
        "peer-lost",
        LONG
        + """if rank == 1:
    dist.destroy_process_group()
    time.sleep(60)
dist.all_reduce(torch.ones(4))
""",
        "unknown",
        needs=("torch",),
        variant="gloo",
    ),
    Case(
        "barrier-missed",
        LONG
        + """if rank == 0:
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=2), wait_all_ranks=True)
time.sleep(60)
""",
        ranks=(1, 2),
        world="1x3",
        needs=("torch",),
        variant="two ranks",
    ),
)
