"""Causes in the workers of a DataLoader."""

from __future__ import annotations

from causes.case import Case

_LOADER = """import ctypes, os, sys, time

import torch
from torch.utils.data import DataLoader


class Images:
    def __len__(self):
        return 8

    def __getitem__(self, index):
        %s


if os.environ["RANK"] == "0":
    for batch in DataLoader(Images(), num_workers=1):
        print(batch)
time.sleep(60)
"""
_OF_MEMORY = "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed."
_SMALL_SHM = """if [ $RANK = 0 ]; then
  unshare --mount sh -c "mount -t tmpfs -o size=1m tmpfs /dev/shm && exec python train.py"
else
  python train.py
fi"""

LOADER_CASES = (
    Case(
        "loader-worker-killed",
        _LOADER % "os.kill(os.getpid(), 9)",
        needs=("torch",),
    ),
    Case(
        "loader-worker-killed",
        _LOADER % "ctypes.string_at(0)",
        needs=("torch",),
        variant="a segmentation fault",
    ),
    Case(
        "loader-worker-killed",
        _LOADER % "os._exit(3)",
        needs=("torch",),
        variant="it left by itself",
    ),
    Case(
        "host-memory",
        _LOADER % ("print(%r, flush=True); os.kill(os.getpid(), 9)" % _OF_MEMORY),
        needs=("torch",),
        simulated="Slurm",
        variant="of a loader's worker, reported by Slurm",
    ),
    Case(
        "loader-shared-memory",
        _LOADER % "return torch.ones(1 << 20)",
        command=_SMALL_SHM,
        needs=("torch", "mounts"),
    ),
    Case(
        "loader-shared-memory",
        _LOADER % "os.kill(os.getpid(), 7)",
        needs=("torch",),
        simulated="PyTorch",
        variant="a bus error",
    ),
)
