"""The files of a run that contain values and samples, and their whole lines.

The files may be another user's, or damaged. So only regular files are read, and the amount that is read is limited.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice

from worldsize.common.atomic_files import open_regular_file
from worldsize.common.numbers import parse_digits
from worldsize.plan.run_paths import RunPaths

MAX_ATTEMPTS = 1000
"""The most attempts of a run that are read, the newest ones."""

MAX_LINE = 1 << 20
"""The most bytes of a line; longer lines are left out."""

_MAX_ENTRIES = 200_000
_BLOCK = 1 << 20


def all_attempts(paths: RunPaths) -> list[RunPaths]:
    """Return the paths (RunPaths) of every attempt of a run that has a directory, oldest first; of very many, only the
    newest MAX_ATTEMPTS."""
    numbers = _numbered_names(paths.root, "attempt-", "")
    return [RunPaths(paths.root, number) for number in sorted(numbers)[-MAX_ATTEMPTS:]]


def rank_files(attempts: Sequence[RunPaths]) -> dict[int, list[tuple[int, str]]]:
    """Return the files of values that each rank has logged with `worldsize.log` in the attempts, by rank, as pairs of
    the attempt's number and the path. The ranks are ascending."""
    found: dict[int, list[tuple[int, str]]] = {}
    for attempt in attempts:
        for rank in _numbered_names(attempt.metrics_dir, "rank-", ".jsonl"):
            found.setdefault(rank, []).append((attempt.attempt, attempt.logged_values(rank)))
    return dict(sorted(found.items()))


def sampled_nodes(attempt: RunPaths) -> list[int]:
    """Return the numbers of the nodes whose agents have written samples of resource use in the attempt, ascending."""
    return sorted(_numbered_names(attempt.samples_dir, "node-", ".jsonl"))


def _numbered_names(directory: str, before: str, after: str) -> set[int]:
    try:
        with os.scandir(directory) as entries:
            names = [each.name for each in islice(entries, _MAX_ENTRIES)]
    except OSError:
        return set()  # a run that has logged nothing has no such directory
    inner = [name[len(before) : len(name) - len(after)] for name in names if _has_ends(name, before, after)]
    return {number for number in map(parse_digits, inner) if number is not None}


def _has_ends(name: str, before: str, after: str) -> bool:
    return name.startswith(before) and name.endswith(after)


def read_ends(path: str, most: int) -> tuple[bytes, bytes]:
    """Return the first and the last `most` bytes of a file; both empty if the file cannot be read."""
    try:
        with open(open_regular_file(path), "rb", buffering=0) as file:
            head = file.read(most)
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return head, file.read(most)
    except OSError:
        return b"", b""  # removed meanwhile, or not readable for this user


def whole_lines(path: str, most: int) -> Iterator[bytes]:
    """Yield the lines of the file at `path` that end with a newline, in pieces (bytes) of many lines. Of a file with
    more than `most` bytes, only the last `most` bytes are read. Yield nothing if the file cannot be read."""
    try:
        with open(open_regular_file(path), "rb", buffering=0) as file:
            skipped = max(0, os.fstat(file.fileno()).st_size - most)
            file.seek(skipped)
            yield from _whole_pieces(file, most, skipped > 0)
    except OSError:
        return  # removed meanwhile, or not readable for this user: other files are still read


def _whole_pieces(file: object, most: int, within_line: bool) -> Iterator[bytes]:
    rest = b""
    left = most
    while left > 0:
        data: bytes = file.read(min(_BLOCK, left))  # type: ignore[attr-defined]
        left -= len(data)
        if not data:
            return
        if within_line:
            _, newline, data = data.partition(b"\n")
            within_line = not newline
        piece, newline, end = data.rpartition(b"\n")
        if newline:
            yield rest + piece + newline
            rest = end
        elif not within_line:
            rest += data
        if len(rest) > MAX_LINE:
            rest, within_line = b"", True
