"""A stand-in for a training program: prints which rank it is, of how many.

In one write: torchrun starts Python with -u, under which `print` writes each word by itself, between those of other
ranks that share the output.
"""

import os
import sys


def first(*names, default):
    return next((os.environ[name] for name in names if os.environ.get(name)), default)


rank = first("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", default="0")
size = first("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", default="1")
sys.stdout.write(" ".join(["rank", rank, "of", size, *sys.argv[1:]]) + "\n")
