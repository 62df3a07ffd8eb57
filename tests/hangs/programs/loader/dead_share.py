"""The data lie on a file system whose server is gone: a FUSE mount that nobody serves. It needs root."""

import ctypes
import os
import tempfile

import torch.distributed as dist
from model import SIZE, Samples, ddp, start
from ranks import about_to_hang, hangs, say
from torch.utils.data import DataLoader

NEW_NAMESPACE, PRIVATE, RECURSIVE = 0x20000, 1 << 18, 1 << 14


def mount() -> str:
    """Nobody but this process sees it, and it goes with it."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = tempfile.mkdtemp(dir=".")
    share = os.open("/dev/fuse", os.O_RDWR)
    options = "fd=%d,rootmode=40000,user_id=0,group_id=0" % share
    if (
        libc.unshare(NEW_NAMESPACE)
        or libc.mount(b"none", b"/", None, PRIVATE | RECURSIVE, None)
        or libc.mount(b"share", folder.encode(), b"fuse", 0, options.encode())
    ):
        raise OSError(ctypes.get_errno(), "no mount")
    return folder


class Shared(Samples):
    def fetch(self, index: int) -> None:
        if hangs(index / SIZE):
            path = os.path.join(mount(), "sample")
            about_to_hang()
            os.stat(path)  # here


start()
net, optimizer = ddp()
for step, x in enumerate(DataLoader(Shared(), batch_size=SIZE)):
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()  # others
    optimizer.step()
    say("step %d: loss %.4f" % (step, loss))
dist.destroy_process_group()
