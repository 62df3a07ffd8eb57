"""All-reduces as `worldsize bench allreduce` times them, and those of a bare loop, in turns within the same ranks.

    python allreduce_pairs.py RANKS_CODE torch|mpi BYTES PAIRS TARGET

One process for each rank, as torchrun or mpirun start them. The first rank writes seconds of one all-reduce, pair by
pair, as JSON: of the rank that took longest. A bare loop is what anybody would write: it has buffers of its own, of the
very size.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

SECONDS = 0.05
"""Of one block, about."""


def bare_torch(size: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One all-reduce, and a barrier."""
    import torch
    import torch.distributed as dist

    buffer = torch.zeros(size // 4)
    return lambda: dist.all_reduce(buffer), dist.barrier


def bare_mpi(size: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The same of mpi4py, as OSU's benchmarks have it: from one buffer into another."""
    from array import array

    from mpi4py import MPI

    world = MPI.COMM_WORLD
    here, there = (array("f", [0.0]) * (size // 4) for _ in range(2))
    return lambda: world.Allreduce([here, MPI.FLOAT], [there, MPI.FLOAT]), world.Barrier


def time_bare(reduce: Callable[[], Any], barrier: Callable[[], Any], iterations: int) -> float:
    barrier()
    began = time.perf_counter()
    for _ in range(iterations):
        reduce()
    return (time.perf_counter() - began) / iterations


def main() -> None:
    code, library, size, pairs, target = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    sys.path.insert(0, code)
    reducer: Any
    if library == "mpi":
        from allreduce.by_mpi import MpiReducer

        reducer, (reduce, barrier) = MpiReducer("float32", size), bare_mpi(size)
        measured = reducer.reduce_out
    else:
        from allreduce.by_torch import TorchReducer

        reducer, (reduce, barrier) = TorchReducer("gloo", "float32", size), bare_torch(size)
        measured = reducer.reduce
    from allreduce.sweep import time_all_reduces

    once, _ = time_all_reduces(reducer, measured, size // 4, 5, 20)
    iterations = reducer.from_first(max(3, int(SECONDS / once)))
    for _ in range(5):
        reduce()
    found: dict[str, list[float]] = {"bench": [], "bare": []}
    for number in range(pairs):
        for who in ("bench", "bare") if number % 2 == 0 else ("bare", "bench"):
            if who == "bench":
                found[who].append(time_all_reduces(reducer, measured, size // 4, 5, iterations)[0])
            else:
                found[who].append(reducer.slowest(time_bare(reduce, barrier, iterations)))
    if reducer.rank == 0:
        with open(target, "w", encoding="utf-8") as file:
            json.dump(found, file)
    reducer.barrier()
    if library == "torch":
        os._exit(0)  # gloo may abort a process whose tensors outlive the group


if __name__ == "__main__":
    main()
