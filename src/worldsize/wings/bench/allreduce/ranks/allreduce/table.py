"""The lines of the table, in the format of nccl-tests, so that programs that read its output can read this one."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TYPES = {"float32": "float", "float64": "double", "float16": "half"}
"""The names of nccl-tests for types, if they differ from the usual names."""
_COLUMNS = (
    "#" + 62 * " " + "out-of-place" + 23 * " " + "in-place" + 10 * " ",
    "#       size         count      type   redop    root" + 2 * "     time   algbw   busbw #wrong",
    "#        (B)    (elements)" + 24 * " " + 2 * "       (us)  (GB/s)  (GB/s)     ",
)


def header(arguments: Any, backend: str, places: list[str]) -> list[str]:
    """Return the lines before the rows of the all-reduce table, in the format of nccl-tests: the parameters, the places
    of the ranks, and the names of the columns."""
    sizes, iterations = arguments.sizes, arguments.iterations or "by time"
    asked = f"minBytes {sizes[0]} maxBytes {sizes[-1]} step: {_step(sizes)} warmup iters: {arguments.warmup}"
    return [
        f"# nThread 1 nGpus 1 {asked} iters: {iterations} agg iters: 1 validation: 1 graph: 0",
        "#",
        f"# Using devices: {len(places)} ranks by {backend}",
        *(f"#  Rank {rank:2d} Group  0 {place}" for rank, place in enumerate(places)),
        "#",
        *_COLUMNS,
    ]


def _step(sizes: list[int]) -> str:
    factors = {larger / size for size, larger in zip(sizes, sizes[1:])}  # no pairwise: Python 3.8; lengths differ by 1
    return f"{factors.pop():g}(factor)" if len(factors) == 1 else "list"


def bus_bandwidth(size: int, seconds: float, ranks: int) -> tuple[float, float]:
    """Return the algorithm bandwidth and the bus bandwidth of an all-reduce of `size` bytes that takes `seconds`, in
    GB/s of 10^9 bytes. The bus bandwidth, 2(n-1)/n times the first, is what each link carries in the best algorithm,
    for any number of ranks."""
    algorithm = size / seconds / 1e9 if seconds > 0 else 0.0
    return algorithm, algorithm * 2 * (ranks - 1) / ranks


def line(row: dict[str, Any], dtype: str, ranks: int) -> str:
    """Return the line of the all-reduce table for the `row` of one size, in the format of nccl-tests. The out-of-place
    columns are N/A for a library that has no all-reduce into another buffer."""
    left = _columns(row["size"], row.get("out_seconds"), row.get("out_wrong"), ranks)
    right = _columns(row["size"], row["seconds"], row["wrong"], ranks)
    return f"{row['size']:12d}  {row['count']:12d}  {TYPES.get(dtype, dtype):>8s}     sum      -1  {left}  {right}"


def _columns(size: int, seconds: float | None, wrong: int | None, ranks: int) -> str:
    if seconds is None:
        return "    N/A     N/A     N/A    N/A"
    algorithm, bus = bus_bandwidth(size, seconds, ranks)
    shown = "N/A" if wrong is None else str(wrong)
    return f"{_microseconds(seconds):>7s}  {algorithm:6.2f}  {bus:6.2f}  {shown:>5s}"


def _microseconds(seconds: float) -> str:
    value = seconds * 1e6
    return f"{value:.{2 if value < 100 else 1 if value < 10000 else 0}f}"


def footer(rows: list[dict[str, Any]], ranks: int) -> list[str]:
    """Return the lines after the rows of the all-reduce table, in the format of nccl-tests: the number of wrong values,
    and the mean of all bus bandwidths."""
    wrong = sum(row["wrong"] + (row.get("out_wrong") or 0) for row in rows)
    times = [(row["size"], seconds) for row in rows for seconds in (row["seconds"], row.get("out_seconds")) if seconds]
    mean = sum(bus_bandwidth(size, seconds, ranks)[1] for size, seconds in times) / len(times) if times else 0.0
    return [
        f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}",
        f"# Avg bus bandwidth    : {mean:g}",
        "#",
    ]
