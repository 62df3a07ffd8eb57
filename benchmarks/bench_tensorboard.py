"""What TensorBoard's files cost: reading a million scalars here, and looking for open files on a node.

The same file is read by TensorBoard's own reader where the package is installed, an event at a time, without its
server. Times are CPU time of this process; memory is what it grows by at most.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import struct
import sys
import time
from collections.abc import Callable

from harness import CHECKOUT, Bench

sys.path.insert(0, os.path.join(CHECKOUT, "src"))

from worldsize.wings.metrics.agent.tensorboard_files import MOST_DESCRIPTORS, OpenEventFiles
from worldsize.wings.metrics.tensorboard.crc32c import masked_crc32c
from worldsize.wings.metrics.tensorboard.scalars import EventFile, read_files

TAG = b"train/loss"
TENTH = 10
"""TensorBoard's own reader would take minutes: it reads a file of a tenth."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scalars", type=int, default=1_000_000, help="scalars in the file (default: %(default)s)")


def main() -> None:
    with Bench("tensorboard", __doc__, configure) as bench:
        count = bench.options.scalars
        path = os.path.join(bench.project("events"), "events.out.tfevents.1")
        with open(path, "wb") as file:
            file.writelines(map(record, range(count)))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        here = [cpu_time(lambda: read_here(path)) for _ in range(bench.count(3, 1))]
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        rows = [["worldsize", "%.1f" % statistics.median(here), "%.0f" % grown]]
        own = tensorboards_own()
        if own is not None:
            small = os.path.join(os.path.dirname(path), "small.tfevents.1")
            with open(small, "wb") as file:
                file.writelines(map(record, range(count // TENTH)))
            rows.append(["tensorboard, %d times a part" % TENTH, "%.1f" % (TENTH * cpu_time(lambda: own(small))), "-"])
        bench.table("Reading a file of %d scalars" % count, ["reader", "CPU seconds", "MB of memory"], rows)
        looks = [look() for _ in range(bench.count(30, 5))]
        bench.limit("reading, per million scalars", statistics.median(here) * 1e6 / count, 10, "s")
        bench.limit("memory while reading", grown, 64, "MB")
        bench.limit("one look for open files", statistics.median(looks) * 1e3, 10, "ms")
        bench.finish({"reading": here, "looking": looks})


def record(step: int) -> bytes:
    """As torch's writer has it."""
    value = b"\x0a%c%s\x15" % (len(TAG), TAG) + struct.pack("<f", 1 / (step + 1))
    summary = b"\x2a%c\x0a%c" % (len(value) + 2, len(value)) + value
    data = b"\x09" + struct.pack("<d", 1e9 + step) + b"\x10" + varint(step) + summary
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


def varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found += bytes([value & 127 | 128])
        value >>= 7
    return found + bytes([value])


def read_here(path: str) -> None:
    (series,) = read_files([EventFile(path, "x")]).series()
    assert series.points


def tensorboards_own() -> Callable[[str], None] | None:
    try:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    except ImportError:
        return None
    return lambda path: [None for _ in EventFileLoader(path).Load()].clear()


def cpu_time(function: Callable[[], None]) -> float:
    before = time.process_time()
    function()
    return time.process_time() - before


def look() -> float:
    """Seconds of the longest look that there is: as many descriptors as one reads."""
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(200)]
    trees = {0: [os.getpid()] * (MOST_DESCRIPTORS // 200 + 1)}
    found = cpu_time(lambda: OpenEventFiles().look(trees) and None)
    for each in files:
        os.close(each)
    return found


if __name__ == "__main__":
    main()
