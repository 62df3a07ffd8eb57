"""A rank that reports its start, meets the others, and ends, or fails on purpose. Standard library only; torch if
requested.

    probe.py first 4 /dir            report, meet the other three by files in /dir, end
    probe.py failing 4 /dir torch    the same by an all-reduce of torch; then the last rank fails, others wait
"""

from __future__ import annotations

import os
import sys
import time

NAMES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
FAILS_AFTER = 0.2
"""Seconds from the line that announces a failure until the failure. srun loses the lines of a step that it
terminates."""
LONGEST = 120.0
"""The maximum number of seconds that a rank waits for others, or for its termination."""


def find_place() -> tuple[int, int]:
    """Return the rank of this process and the number of ranks, from the variables of the first launcher's convention in
    NAMES that is set. Exit if there is none."""
    for rank, size in NAMES:
        if os.environ.get(rank, "").isdigit() and os.environ.get(size, "").isdigit():
            return int(os.environ[rank]), int(os.environ[size])
    sys.exit("no launcher has set this process's rank")


def find_machine() -> str:
    """Return a name that identifies this machine, because the clocks of machines differ: the kernel's boot id,
    otherwise the host name."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:  # a sandbox without this file
        return os.uname().nodename


MACHINE = find_machine()


def tell(what: str, rank: int) -> None:
    """Print the report line of the event `what` of this rank, with the time and the machine, by a single write, so that
    lines of other ranks do not mix with it."""
    os.write(1, f"worldsize-bench {what} {rank} {time.time_ns()} {MACHINE};\n".encode())


def meet_by_files(directory: str, rank: int, ranks: int) -> None:
    """Create this rank's file in `directory` and wait until each of the `ranks` ranks has created its own. Exit after
    LONGEST seconds."""
    with open(os.path.join(directory, f"rank-{rank}"), "w"):
        pass
    until = time.monotonic() + LONGEST
    while sum(name.startswith("rank-") for name in os.listdir(directory)) < ranks:
        if time.monotonic() > until:
            sys.exit("the other ranks have not joined")
        time.sleep(0.001)


def meet_by_torch(directory: str, rank: int, ranks: int) -> None:
    """Run one all-reduce of all ranks with torch, by NCCL if each rank has a GPU, otherwise by gloo. Exit if its result
    is wrong."""
    import torch
    import torch.distributed as dist

    local = int(os.environ.get("LOCAL_RANK", os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0")))
    on_gpu = torch.cuda.is_available() and local < torch.cuda.device_count()
    if on_gpu:
        torch.cuda.set_device(local)
    where = "env://" if "MASTER_ADDR" in os.environ else f"file://{directory}/group"
    dist.init_process_group("nccl" if on_gpu else "gloo", init_method=where, rank=rank, world_size=ranks)
    total = torch.ones(1, device="cuda" if on_gpu else "cpu")
    dist.all_reduce(total)
    if int(total.item()) != ranks:
        sys.exit("the all-reduce is wrong")


def main() -> None:
    mode, ranks, directory, *more = sys.argv[1:]
    rank, found = find_place()
    tell("first", rank)
    if found != int(ranks):
        sys.exit(f"this rank is one of {found}, not of {ranks}")
    (meet_by_torch if "torch" in more else meet_by_files)(directory, rank, found)
    tell("step", rank)
    if mode == "failing":
        if rank == found - 1:
            tell("failing", rank)
            time.sleep(FAILS_AFTER)
            os._exit(3)
        time.sleep(LONGEST)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
