"""What a failed rank says of itself: its exception as data, or its exit code, as one `Failure`."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from worldsize.plan.paths import RunPaths
from worldsize.state.records import Failure, Reason

PEER_LOSS = re.compile(
    r"closed by peer|reset by peer|Broken pipe|remote process exited|Socket closed|recvValue failed|"
    r"Connection was likely closed|ncclRemoteError|failed to recv, got 0 bytes|Connection refused|"
    r"ChildFailedError|RendezvousConnectionError|Timed out waiting for clients"
)
"""Messages of ranks that fail because another one did."""

_NO_SPACE = re.compile(r"\[Errno (28|122)\]|No space left on device|Disk quota exceeded")
_MEMORY_TYPES = ("MemoryError", "OutOfMemoryError")


def read_error(paths: RunPaths, rank: int, torchelastic_file: str | None = None) -> dict[str, Any] | None:
    """A rank's exception: {type, message, frames: [{file, line, function, code}], time}; None if it left none.

    The hook that Python ranks load writes it; scripts under torch's @record write another form, read here too.
    """
    path = paths.rank_error(rank)
    return _read_json(path) or _from_torchelastic(_read_json(torchelastic_file or path + ".torchelastic"))


def _read_json(path: str) -> dict[str, Any] | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _from_torchelastic(value: dict[str, Any] | None) -> dict[str, Any] | None:
    message = (value or {}).get("message")
    if isinstance(message, str):
        return {"type": "", "message": message, "frames": [], "time": 0.0}
    if not isinstance(message, dict):
        return None
    extra = message.get("extraInfo") or {}
    kind, _, text = str(message.get("message", "")).partition(": ")
    stack = str(extra.get("py_callstack", "")).splitlines()
    return {"type": kind, "message": text, "frames": [], "stack": stack, "time": float(extra.get("timestamp") or 0)}


def rank_failure(
    rank: int, node_rank: int, host: str, code: int, ended: float, error: dict[str, Any] | None, oom_killed: bool
) -> Failure:
    """The failure of one rank that ended with `code` by itself, at the time of its exception if it left one."""
    said = "%s: %s" % (error["type"], error["message"]) if error else ""
    if code > 128:
        how = "was killed by signal %d" % (code - 128)
        reason = Reason.OUT_OF_MEMORY if oom_killed and code == 137 else Reason.SIGNAL
    else:
        how = "exited with code %d" % code
        reason = Reason.EXIT_CODE
    if _NO_SPACE.search(said):
        reason = Reason.STORAGE
    elif error and str(error["type"]).rpartition(".")[2] in _MEMORY_TYPES:
        reason = Reason.OUT_OF_MEMORY
    message = "rank %d on node %d (%s) %s" % (rank, node_rank, host, how)
    if said:
        message += ": " + said.strip().splitlines()[0][:500]
    raised = float(error.get("time") or ended) if error else ended
    return Failure(reason, message, node_rank, rank, code, min(raised, ended))


def start_failure(command: str, rank: int, node_rank: int, error: OSError, disk_full: bool) -> Failure:
    """The failure of a rank that could not be started: 127 for a command that is not there, else 126."""
    missing = isinstance(error, FileNotFoundError)
    what = "%s: %s" % (command, error.strerror)
    reason = Reason.STORAGE if disk_full else Reason.EXIT_CODE
    return Failure(reason, what, node_rank, rank, 127 if missing else 126, time.time())


def is_peer_loss(failure: Failure) -> bool:
    return PEER_LOSS.search(failure.message) is not None


def precedence(failure: Failure) -> tuple[bool, float]:
    """Sort key: a rank that lost its peer comes after the peer, whatever the clocks say; else the earlier one first."""
    return is_peer_loss(failure), failure.time


def oom_kills() -> int:
    """How often this machine's kernel has killed for want of memory, or -1 where it does not tell."""
    try:
        with open("/proc/vmstat") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return -1
