"""Readers of the end of a log: its last lines, and the last lines of the other ranks."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from worldsize.logs.reader import file_size, read_at
from worldsize.logs.text import format_ranges, split_lines
from worldsize.plan.run_paths import RunPaths

_BLOCK = 64 * 1024
_LAST_WORDS = 4096


def read_text(path: str) -> str:
    """Return the whole log file as text, as the rank wrote it, invalid UTF-8 as U+FFFD; "" if there is no file."""
    return read_at(path, 0, file_size(path)).decode("utf-8", "replace")


def tail_offset(path: str, lines: int, max_bytes: int | None = None) -> int:
    """Return the offset in bytes at which the last `lines` lines of the log file `path` begin, or the one `max_bytes`
    before its end if that is later."""
    size = position = file_size(path)
    floor = 0 if max_bytes is None else max(0, size - max_bytes)
    if lines <= 0:
        return size
    wanted = lines
    while position > floor:
        start = max(floor, position - _BLOCK)
        block = read_at(path, start, position - start)
        if position == size and block.endswith(b"\n"):
            wanted += 1
        found = block.count(b"\n")
        if found >= wanted:
            at = len(block)
            for _ in range(wanted):
                at = block.rindex(b"\n", 0, at)
            return start + at + 1
        wanted -= found
        position = start
    return floor


def last_lines(path: str, n: int, max_bytes: int = 1 << 20) -> list[str]:
    """Return the last `n` lines of the log file `path`, out of at most its last `max_bytes`, as text that is safe to
    show; none if there is no file."""
    if n <= 0:
        return []
    start = tail_offset(path, n, max_bytes)
    block = read_at(path, start, file_size(path) - start)
    return split_lines(block[:-1] if block.endswith(b"\n") else block)[-n:] if block else []


def summarize_others(paths: RunPaths, ranks: Sequence[int], exclude: Collection[int] = (), limit: int = 5) -> list[str]:
    """Return texts with the last log line of each of `ranks` except `exclude`, one text for all ranks with the same
    line (numbers apart), the most common first: `ranks 0-2,5: "RuntimeError: Connection closed by peer"`.

    At most `limit` such texts are returned, then one with the number of ranks that are left out.
    """
    from worldsize.logs.numbers import merge_lines, number_key

    said: dict[str, list[tuple[int, str]]] = {}
    for rank in sorted(set(ranks) - set(exclude)):
        lines = [line.strip() for line in last_lines(paths.rank_log(rank), 20, _LAST_WORDS)]
        line = next((line for line in reversed(lines) if line), "")
        said.setdefault(number_key(line), []).append((rank, line))
    groups = sorted(said.values(), key=lambda group: (-len(group), group[0][0]))
    texts = []
    for group in groups[:limit]:
        text = merge_lines([line for _, line in group])
        who = "rank" if len(group) == 1 else "ranks"
        texts.append(
            "{} {}: {}".format(who, format_ranges([rank for rank, _ in group]), f'"{text}"' if text else "no output")
        )
    left = sum(map(len, groups[limit:]))
    return [*texts, f"{left} more ranks have other output"] if left else texts
