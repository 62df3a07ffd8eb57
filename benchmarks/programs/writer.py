"""A rank that writes a known text to its stdout, and the same to a file beside, in turns, and says what each took.

python writer.py TARGET_DIRECTORY BYTES: half of the bytes as lines of 100, each flushed as unbuffered Python does, half
in blocks of 64 KiB; each half in ten turns. Seconds go to TARGET_DIRECTORY/rank-N.json.
"""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

LINE = 100
BLOCK = 1 << 16
TURNS = 10

Sink = tuple[str, Callable[[Any], object]]


def line(rank: int, number: int) -> str:
    return ("rank %05d line %09d " % (rank, number)).ljust(LINE - 1, ".") + "\n"


def block(rank: int, number: int) -> bytes:
    return (b"rank %05d block %09d " % (rank, number)).ljust(BLOCK - 1, b".") + b"\n"


def counts(size: int) -> tuple[int, int]:
    """Lines and blocks in each turn; at least one."""
    return max(1, size // 2 // TURNS // LINE), max(1, size // 2 // TURNS // BLOCK)


def content(rank: int, size: int) -> Iterator[bytes]:
    """All that stdout gets, piece by piece."""
    lines, blocks = counts(size)
    for turn in range(TURNS):
        yield "".join(line(rank, number) for number in range(turn * lines, (turn + 1) * lines)).encode()
    for turn in range(TURNS):
        yield b"".join(block(rank, number) for number in range(turn * blocks, (turn + 1) * blocks))


def seconds(write: Callable[[Any], object], pieces: Sequence[Any]) -> float:
    began = time.perf_counter()
    for piece in pieces:
        write(piece)
    return time.perf_counter() - began


def in_turns(sinks: Sequence[Sink], make: Callable[[int], object], count: int) -> dict[str, list[float]]:
    """Seconds per sink and turn; who is first changes with each turn."""
    took: dict[str, list[float]] = {name: [] for name, _ in sinks}
    for turn in range(TURNS):
        pieces = [make(number) for number in range(turn * count, (turn + 1) * count)]
        for name, write in sinks if turn % 2 else reversed(sinks):
            took[name].append(seconds(write, pieces))
    return took


def main() -> None:
    directory, size = sys.argv[1], int(sys.argv[2])
    rank = int(os.environ["RANK"])
    beside = os.path.join(directory, "beside-%05d" % rank)
    plain = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    lines, blocks = counts(size)
    texts = [
        (name, io.TextIOWrapper(io.FileIO(file, "w", closefd=False), write_through=True))
        for name, file in (("log", 1), ("file", plain))
    ]
    took = {"lines": in_turns([(name, text.write) for name, text in texts], lambda number: line(rank, number), lines)}
    raw = [("log", lambda piece: os.write(1, piece)), ("file", lambda piece: os.write(plain, piece))]
    took["blocks"] = in_turns(raw, lambda number: block(rank, number), blocks)
    os.unlink(beside)
    with open(os.path.join(directory, "rank-%05d.json" % rank), "w") as file:
        json.dump(took, file)


if __name__ == "__main__":
    main()
