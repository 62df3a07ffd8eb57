"""A stand-in for a training program: says which rank it is, of how many."""

import os
import sys


def first(*names, default):
    return next((os.environ[name] for name in names if os.environ.get(name)), default)


rank = first("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", default="0")
size = first("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", default="1")
print("rank", rank, "of", size, *sys.argv[1:], flush=True)
