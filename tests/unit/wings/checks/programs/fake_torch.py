"""A torch that is made up, as far as the programs of ranks need it, with a log such as NCCL's."""

from __future__ import annotations

from pathlib import Path

TORCH = """
import os
__version__ = "2.9.0"
float32 = None
class Numbers:
    def fill_(self, value): self.value = value
    def __eq__(self, other): return self
    def all(self): return os.environ.get("WRONG") != Numbers.rank
def empty(number, dtype, device): return Numbers()
class device:
    def __init__(self, kind, number=0): self.type = kind
class cuda:
    @staticmethod
    def set_device(number): print("a module that prints")
    @staticmethod
    def get_device_name(device): return "NVIDIA X"
    @staticmethod
    def synchronize(device): pass
"""
DISTRIBUTED = """
import os, sys, time
import torch
class TCPStore:
    def __init__(self, address, port, is_master, timeout, wait_for_workers):
        assert (port == 0) == is_master
        self.port = port or 41000
        self.seen = "%s %d" % (address, self.port)
    def add(self, name, number): return 100
def init_process_group(kind, store, rank, world_size, timeout):
    torch.Numbers.rank = str(rank)
    if os.environ.get("BROKEN") == str(rank):
        raise RuntimeError("NCCL error: unhandled system error")
    if os.environ.get("BROKEN"):
        time.sleep(100)
    with open(os.environ["NCCL_DEBUG_FILE"].replace("%p", str(os.getpid())), "w") as log:
        log.write("n1:1:1 [0] NCCL INFO Using network Socket\\n")
        log.write("n1:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\\n")
        log.write("n1:1:1 [0] NCCL INFO NET/Socket : Using [0]eth7:10.0.0.1<0>\\n")
        log.write("n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Sock")
    with open(os.environ["SEEN"] + "-" + str(rank), "w") as seen:
        seen.write("%s %s %d" % (kind, store.seen, world_size))
def all_reduce(numbers): pass
def barrier(): pass
"""


def put_torch(folder: Path) -> None:
    """Make the package in this folder."""
    package = folder / "torch"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text(TORCH)
    (package / "distributed.py").write_text(DISTRIBUTED)
