"""The last lines of each rank's log, and of the logs of launchers, setup and agents. Ranks that failed come first."""

from __future__ import annotations

import os

from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import size_text
from worldsize.errors import WorldsizeError
from worldsize.logs.reader import file_size, read_at
from worldsize.logs.tail import tail_offset
from worldsize.logs.text import MORE, split_lines, without_colours
from worldsize.wings.report.facts import Child, RunFacts
from worldsize.wings.report.text import shorten

_RANKS = 512
"""The largest number of ranks whose logs are shown."""

_TOTAL = 8 << 20
_ONE = 1 << 20
"""The largest sizes in bytes of all logs together, and of one log."""

_OTHERS = 32
"""The largest number of logs that are not those of ranks."""

_LINE = 4000
"""The largest number of characters of a line."""

_OPEN = 4
"""The number of logs of failed ranks that are unfolded."""


class LogEnd(NamedTuple):
    """The last lines of a log. `left` is the number of bytes before them."""

    text: str
    left: int


def log_id(rank: int) -> str:
    """Return the HTML element id of a rank's log in the report page, such as "log-3"."""
    return f"log-{rank}"


def shown_ranks(facts: RunFacts) -> list[int]:
    """Return the ranks whose logs are in the report page (at most 512), those that failed first."""
    everyone = [rank.rank for node in facts.nodes for rank in node.ranks]
    failed = [rank for rank in facts.failed_ranks() if rank in set(everyone)]
    return list(dict.fromkeys([*failed, *everyone]))[:_RANKS]


def logs(facts: RunFacts) -> list[Child]:
    shown, others = shown_ranks(facts), _other_logs(facts)
    share = min(_ONE, _TOTAL // max(1, len(shown) + len(others)))
    failed = facts.failed_ranks()[:_OPEN]
    found = [
        _log(facts, f"rank {rank}", facts.paths.rank_log(rank), share, log_id(rank), rank in failed) for rank in shown
    ]
    found += [_log(facts, os.path.basename(path), path, share, "") for path in others]
    left = sum(len(node.ranks) for node in facts.nodes) - len(shown)
    if left > 0:
        found.append(facts.pictures.element("p", f"The logs of {left} more ranks are left out."))
    return found


def _log(facts: RunFacts, name: str, path: str, most: int, anchor: str, opened: bool = False) -> Child:
    element = facts.pictures.element
    try:
        end = log_end(facts, path, most)
    except WorldsizeError as error:
        return element("p", f"{name}: {error.what}", class_="bad")
    remark = [element("p", f"{size_text(end.left)} before these lines are left out.")] if end.left else []
    body = element("pre", end.text or "(nothing)", **({"id": anchor} if anchor else {}))
    return facts.pictures.details(f"{name}: {size_text(file_size(path))}", *remark, body, open=opened)


def log_end(facts: RunFacts, path: str, most: int) -> LogEnd:
    """Return the last `facts.log_lines` lines of the log file `path` as a LogEnd, out of at most the last `most` bytes,
    without colours and overwritten text, and with secrets masked. Raise StorageError."""
    start = _whole_line(path, tail_offset(path, facts.log_lines, most))
    block = read_at(path, start, file_size(path) - start)[-most:]
    lines = split_lines(block.removesuffix(b"\n"))[-facts.log_lines :] if block and facts.log_lines else []
    text = facts.mask(without_colours("\n".join(lines).replace(MORE + "\n", "")).replace(MORE, ""))
    return LogEnd("\n".join(shorten(line, _LINE) for line in text.split("\n")), start)


def _whole_line(path: str, start: int) -> int:
    """Return the offset of the first whole line of the log file `path` at or after the offset `start`, since a
    truncated secret would not be recognised. If there is none, return the file's size."""
    if start == 0 or read_at(path, start - 1, 1) == b"\n":
        return start
    found = read_at(path, start, _ONE).find(b"\n")
    return file_size(path) if found < 0 else start + found + 1


def _other_logs(facts: RunFacts) -> list[str]:
    """Return the paths of the run's logs that are not those of ranks (setup, batch script, launchers, agents) and are
    not empty; at most 32."""
    paths = [
        *(os.path.join(facts.paths.root, name) for name in _names(facts.paths.root) if name.startswith("batch")),
        *(os.path.join(facts.paths.logs_dir, name) for name in _names(facts.paths.logs_dir)),
    ]
    logs_of_others = [path for path in paths if path.endswith(".log") and "/rank-" not in path[len(facts.paths.root) :]]
    return [path for path in logs_of_others if os.path.isfile(path) and file_size(path)][:_OTHERS]


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []  # the run has not started
