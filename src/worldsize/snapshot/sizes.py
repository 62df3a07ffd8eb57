"""Sizes of snapshots as text."""

from __future__ import annotations

import os

from worldsize.common.atomic_files import printable_text


def human_bytes(number: int) -> str:
    size = float(number)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"


def largest_entries(files: list[tuple[str, os.stat_result]], directories: list[str]) -> str:
    """Return a text about the three largest entries at the top of a code directory, from its listed `files` and
    `directories`. One of the three is the entry with the most files and directories."""
    sizes: dict[str, list[int]] = {}
    for relative, status in files:
        top, slash, _ = relative.partition("/")
        total = sizes.setdefault(top + slash, [0, 0])
        total[0] += status.st_size
        total[1] += 1
    for relative in directories:
        sizes.setdefault(relative.partition("/")[0] + "/", [0, 0])[1] += 1
    worst = sorted(sizes, key=lambda top: sizes[top], reverse=True)[:3]
    if worst:
        most = max(sizes, key=lambda top: sizes[top][1])
        if most not in worst:
            worst[-1] = most
    return ", ".join(
        "{} ({}{})".format(
            printable_text(top), human_bytes(sizes[top][0]), f", {sizes[top][1]} entries" if top[-1] == "/" else ""
        )
        for top in worst
    )
