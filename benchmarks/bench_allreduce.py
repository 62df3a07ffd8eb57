"""The all-reduces that `worldsize bench allreduce` times against a bare loop of the same library: two ranks.

Both run in turns in the same two ranks (programs/allreduce_pairs.py), so that whatever else the machine does meets
both; several times, as each start gives the buffers other pages. With gloo by torch, and by mpi4py where the
environment .venv-mpi and mpirun are there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys

from harness import CHECKOUT, Bench, contest_rows, ratio, run

PAIRS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "allreduce_pairs.py")
RANKS = os.path.join(CHECKOUT, "src", "worldsize", "wings", "bench", "allreduce", "ranks")
MPI = os.path.join(CHECKOUT, ".venv-mpi", "bin", "python")
SIZES = (("8 B", 8), ("64 KiB", 1 << 16), ("4 MiB", 1 << 22))
PAIRS_OF_A_START = 20
MICROSECONDS = 1e6


def main() -> None:
    with Bench("allreduce", __doc__) as bench:
        contests = {}
        if importlib.util.find_spec("torch") is not None:
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
            contests["torch"] = ("gloo by torch", torchrun)
        if os.path.exists(MPI) and shutil.which("mpirun"):
            contests["mpi"] = ("mpi4py", ["mpirun", "-n", "2", "--oversubscribe", MPI])
        if not contests:
            sys.exit("bench_allreduce.py needs torch, or .venv-mpi: `make setup`")
        everything = {}
        for library, (title, launcher) in contests.items():
            for name, size in SIZES:
                what = "%s, %s" % (title, name)
                sample = everything[what] = measure(bench, launcher, library, size)
                head = ["loop", "median, µs", "10 % to 90 %", "over a bare loop"]
                bench.table("All-reduce of two ranks, " + what, head, contest_rows(sample, ["bare"], MICROSECONDS))
                bench.limit("%s: an all-reduce over a bare loop's" % what, ratio(sample, "bench", "bare").median, 1.05)
        bench.finish(everything)


def measure(bench: Bench, launcher: list[str], library: str, size: int) -> dict[str, list[float]]:
    """Seconds of one all-reduce in each block, of both loops."""
    target = os.path.join(bench.work, "pairs.json")
    found: dict[str, list[float]] = {"bench": [], "bare": []}
    for _ in range(bench.count(6, 1)):
        words = [PAIRS, RANKS, library, str(size), str(PAIRS_OF_A_START), target]
        run([*launcher, *words], bench.environ(OMP_NUM_THREADS="1"), bench.work)
        with open(target, encoding="utf-8") as file:
            sample: dict[str, list[float]] = json.load(file)
        for who, seconds in sample.items():
            found[who] += seconds
    return found


if __name__ == "__main__":
    main()
