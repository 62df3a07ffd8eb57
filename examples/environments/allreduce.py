"""Sums one number of each rank by Horovod, and says what this Horovod was built with."""

from __future__ import annotations

import horovod.torch as hvd
import torch


def main() -> None:
    hvd.init()
    total = hvd.allreduce(torch.tensor([float(hvd.rank() + 1)]), op=hvd.Sum)
    built = [name for name in ("mpi", "nccl", "gloo") if getattr(hvd, name + "_built")()]
    print("rank %d of %d: sum %.0f, built with %s" % (hvd.rank(), hvd.size(), total.item(), " and ".join(built)))


if __name__ == "__main__":
    main()
