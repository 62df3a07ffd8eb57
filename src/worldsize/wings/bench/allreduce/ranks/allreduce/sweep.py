"""The sweep: measures all sizes, one after the other. A `Reducer` contains the operations of a library."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time

from .memory import free_memory, memory_problem
from .table import footer, header, line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn


class Reducer:
    """The operations of a library of collectives.

    element      bytes of one element
    device, bus  the name and the bus address of the device that the buffers are on
    """

    rank: int
    ranks: int
    backend: str
    device = bus = "CPU"
    gpus = 0
    local_rank = int(os.environ.get("LOCAL_RANK") or 0)
    element: int
    software: dict[str, str]
    has_out_of_place = False

    def reduce(self, count: int) -> None:
        """All-reduce the first `count` elements of the buffer in place, as a sum over all ranks."""
        raise NotImplementedError

    def reduce_out(self, count: int) -> None:
        """All-reduce the first `count` elements of the buffer into another buffer, as a sum over all ranks. Available
        only if `has_out_of_place`."""
        raise NotImplementedError

    def zero(self, count: int) -> None:
        """Fill the first `count` elements of the buffer with 0."""
        raise NotImplementedError

    def count_wrong(self, count: int, out: bool) -> int:
        """Fill the first `count` elements of the buffer with a test pattern and all-reduce them once, out of place if
        `out` is true, in place if it is false. Return how many elements, over all ranks, differ from the right sum.
        Subclasses implement this."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Wait until all requested all-reduces of this rank are done. Does nothing in a library whose calls return only
        when they are done."""

    def barrier(self) -> None:
        raise NotImplementedError

    def slowest(self, value: float) -> float:
        """Return the largest of the `value`s that the ranks pass, on every rank."""
        raise NotImplementedError

    def from_first(self, value: int) -> int:
        """Return the `value` that the first rank passes, on every rank."""
        raise NotImplementedError

    def gather(self, text: str) -> list[str]:
        """Return the `text` of every rank, in the order of the ranks. A text may be cut to 200 bytes."""
        raise NotImplementedError

    def check_memory(self, size: int, buffers: int) -> None:
        """Stop this rank if the ranks of its machine, each with `buffers` buffers of `size` bytes, need more memory
        than is free."""
        host = platform.node()
        problem = memory_problem(size, buffers, self.gather(host).count(host), free_memory())
        if problem:
            stop(problem)


PATH = os.path.join("outputs", "bench.json")
LEAST_ITERATIONS = 3
BLOCKS = ((20, 1.0), (1000, 0.1))
"""Maximum iterations of a block, each with the seconds that the block may take: 20, as in nccl-tests, or as many as fit
into one second. Short all-reduces get more iterations, because the ranks do not begin at exactly the same time."""
LONG, FEW_WARM_UPS = 0.1, 3
"""A time in seconds and a number of all-reduces. After a size that took longer than this time, the next one has at most
this number of warm-ups."""


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="measure all-reduce")
    parser.add_argument("--sizes", type=lambda text: [int(each) for each in text.split(",")], required=True)
    parser.add_argument("--backend", default="")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--iterations", type=int, default=0, help="of each size; 0: by time")
    parser.add_argument("--warmup", type=int, default=5)
    return parser.parse_args()


def run_sweep(reducer: Reducer, arguments: argparse.Namespace) -> None:
    """Run the all-reduce benchmark in this rank: measure every size of `arguments`. The first rank prints the table and
    writes the report. Both contain the number of wrong elements."""
    shown = _print if reducer.rank == 0 else _ignore
    for text in header(arguments, reducer.backend, reducer.gather(_place(reducer))):
        shown(text)
    rows: list[dict[str, Any]] = []
    for count in sorted({max(1, size // reducer.element) for size in arguments.sizes}):
        before = rows[-1]["seconds"] if rows else 0.0
        rows.append(_measure(reducer, count, arguments, before))
        shown(line(rows[-1], arguments.dtype, reducer.ranks))
    for text in footer(rows, reducer.ranks):
        shown(text)
    if reducer.rank == 0:
        _write_report(reducer, arguments, rows)


def _place(reducer: Reducer) -> str:
    host = platform.node()
    return f"Pid {os.getpid():6d} on {host:>10s} device {reducer.local_rank:2d} [{reducer.bus}] {reducer.device}"


def _measure(reducer: Reducer, count: int, arguments: argparse.Namespace, before: float = 0.0) -> dict[str, Any]:
    """Return the row of the all-reduce report for `count` elements: the seconds of one all-reduce on the slowest rank,
    and the number of wrong values. `before` is the time of the previous size in seconds, which is the same on all
    ranks."""
    row: dict[str, Any] = {"size": count * reducer.element, "count": count, "out_seconds": None, "out_wrong": None}
    asked = arguments.warmup if before < LONG else min(arguments.warmup, FEW_WARM_UPS), arguments.iterations
    if reducer.has_out_of_place:
        row["out_seconds"], _ = time_all_reduces(reducer, reducer.reduce_out, count, *asked)
        row["out_wrong"] = reducer.count_wrong(count, True)
    row["seconds"], row["iterations"] = time_all_reduces(reducer, reducer.reduce, count, *asked)
    row["wrong"] = reducer.count_wrong(count, False)
    return row


def time_all_reduces(
    reducer: Reducer, reduce: Callable[[int], None], count: int, warm_ups: int, iterations: int
) -> tuple[float, int]:
    """Return the mean time of one call of `reduce` with `count` elements, in seconds, over one uninterrupted block of
    all-reduces on the slowest rank, and the number of iterations of the block: `iterations`, or a number chosen by time
    if that is 0. The first `warm_ups` all-reduces connect the ranks and do not count."""
    reducer.zero(count)
    for _ in range(warm_ups):
        reduce(count)
    once = _block(reducer, reduce, count, 1)
    iterations = reducer.from_first(iterations or _iterations(reducer.slowest(once)))
    return reducer.slowest(_block(reducer, reduce, count, iterations)) / iterations, iterations


def _block(reducer: Reducer, reduce: Callable[[int], None], count: int, iterations: int) -> float:
    reducer.synchronize()
    reducer.barrier()
    began = time.perf_counter()
    for _ in range(iterations):
        reduce(count)
    reducer.synchronize()
    return time.perf_counter() - began


def _iterations(once: float) -> int:
    return max(LEAST_ITERATIONS, *(min(most, int(seconds / max(once, 1e-9))) for most, seconds in BLOCKS))


def _write_report(reducer: Reducer, arguments: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    report = {
        "rows": rows,
        "ranks": reducer.ranks,
        "backend": reducer.backend,
        "device": reducer.device,
        "dtype": arguments.dtype,
        "gpus": reducer.gpus,
        "threads": _threads(os.environ.get("OMP_NUM_THREADS", "")),
        "software": reducer.software,
    }
    os.makedirs("outputs", exist_ok=True)
    with open(PATH + ".part", "w") as file:
        json.dump(report, file)
    os.replace(PATH + ".part", PATH)


def _threads(said: str) -> int:
    """Return the number of threads of the outermost level in `said`, a value of OMP_NUM_THREADS: 4 for "4,2"; 1 if
    `said` contains no number."""
    first = said.partition(",")[0].strip()
    return int(first) if first.isdigit() else 1


def _print(text: str) -> None:
    print(text, flush=True)


def _ignore(text: str) -> None:
    pass


def stop(sentence: str) -> NoReturn:
    """Exit this rank with `sentence` as its last output, on standard error."""
    sys.stdout.flush()
    sys.exit(sentence)
