"""All-reduce by MPI: every rank adds up an array over all ranks, and looks at the sum.

    worldsize run examples/mpi-allreduce/job.yml -w 2x2
    worldsize run examples/mpi-allreduce/job.yml -w 1x4 --set inputs.megabytes=64

Every rank prints `allreduce=ok`; rank 0 says how fast it was, and by which MPI.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from mpi4py import MPI

REPEATS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description="all-reduce an array with mpi4py")
    parser.add_argument("--megabytes", type=float, default=4)
    megabytes = parser.parse_args().megabytes
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    mine = np.arange(int(megabytes * 1e6 / 8), dtype=np.float64) + rank
    total = np.empty_like(mine)
    world.Barrier()
    started = time.perf_counter()
    for _ in range(REPEATS):
        world.Allreduce(mine, total, op=MPI.SUM)
    seconds = (time.perf_counter() - started) / REPEATS
    expected = (mine - rank) * size + size * (size - 1) / 2
    if not np.array_equal(total, expected):
        raise SystemExit("rank %d: the sum over %d ranks is wrong" % (rank, size))
    print("rank %d of %d on %s: allreduce=ok" % (rank, size, MPI.Get_processor_name()), flush=True)
    if rank == 0:
        library = MPI.Get_library_version().split(",")[0]
        print("%.1f ms for %g MB, by %s" % (1000 * seconds, megabytes, library), flush=True)


if __name__ == "__main__":
    main()
