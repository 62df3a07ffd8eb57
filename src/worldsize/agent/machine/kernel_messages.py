"""The messages in the kernel's log about this user's processes and about GPUs, if this user may read the log.

Linux: Documentation/ABI/testing/dev-kmsg, mm/oom_kill.c, kernel/hung_task.c; NVIDIA: Xid errors.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection

from worldsize.agent.machine.control_groups import memory_group
from worldsize.common.named_tuple import NamedTuple

LOG = "/dev/kmsg"
_MOST_RECORDS, _MOST_MESSAGES = 100_000, 20
_LONGEST = 500
_SLACK = 3.0
"""Seconds by which the times of records may differ from the clock, because the clock of the records is not
corrected."""

_RECORD = re.compile(r"\d+,\d+,(\d{1,18}),[^;]*;(.*)")
_KILLED = re.compile(r"Killed process (\d+) .*\bUID:(\d+)\b")
_KILLED_IN = re.compile(r"\boom-kill:.*\boom_memcg=([^,\n]*),task_memcg=([^,\n]*),.*\bpid=(\d+)")
"""Groups of this pattern: the control group whose memory was full, the killed process's own group, and its pid."""
_FOR_WANT_OF_A_GROUPS = "Memory cgroup out of memory"
_BLOCKED = re.compile(r"task .{1,40}:(\d+) blocked for more than")
_XID = re.compile(r"NVRM: Xid ")
_XID_PROCESS = re.compile(r"\bpid='?(\d+)")


class KernelMessage(NamedTuple):
    """A message of the kernel. `time` is in Unix seconds, accurate to some seconds."""

    time: float
    text: str


def read_kernel_messages(since: float, failed: float, pids: Collection[int], path: str = LOG) -> list[KernelMessage]:
    """Return the latest messages in the kernel's log since `since` that are about `pids`, the processes of ranks: kills
    because memory had run out, long waits, and GPU errors. Return nothing if the log cannot be read. Times are Unix
    seconds.

    Kills of this user's other processes, which ranks may have started, are included only if they came at the time at
    which the run `failed`. Of these, a kill because a control group's memory had run out is included only if the
    group's limit applies to this process, and the killed process was in this process's group or below it. GPU errors
    are also included if they name no process.
    """
    booted = time.time() - time.monotonic()
    found = []
    records = read_records(path, b"Killed process", b"oom-kill:", b"NVRM: Xid", b"blocked for more") or ""
    beside = _processes_in(memory_group(), records)
    for record in records.split("\n"):
        match = _RECORD.match(record)
        if match is None:
            continue
        moment = booted + int(match[1]) / 1e6
        others = beside if moment >= since and abs(moment - failed) <= _SLACK else None
        if moment >= since - _SLACK and _is_own(match[2], pids, others):
            found.append(KernelMessage(moment, match[2][:_LONGEST]))
    return found[-_MOST_MESSAGES:]


def _processes_in(group: str | None, records: str) -> frozenset[int]:
    """Return the pids of the processes that the kernel killed, according to its `records`, in the control group `group`
    or below it, because the memory of that group, or of a group that it is in, was full."""
    killed = _KILLED_IN.finditer(records)
    return frozenset(
        int(each[3]) for each in killed if group and _contains(each[1], group) and _contains(group, each[2])
    )


def _contains(group: str, other: str) -> bool:
    """Return whether the control group with the path `group` is the group `other`, or one of the groups above
    `other`."""
    return f"{other}/".startswith(f"{group}/")


def _is_own(text: str, pids: Collection[int], beside: Collection[int] | None) -> bool:
    """Return whether the kernel's message `text` is about a rank's process, one of `pids`, a GPU error without a
    process, or the kill of another process of this user that counts. `beside` contains the processes that were killed
    in this process's control group by its limit; None if no kill of another process counts."""
    killed = _KILLED.search(text)
    if killed is not None:
        pid, uid = int(killed[1]), int(killed[2])
        if pid in pids or beside is None:
            return pid in pids
        return uid == os.getuid() and (pid in beside or not text.startswith(_FOR_WANT_OF_A_GROUPS))
    blocked = _BLOCKED.search(text)
    if blocked is not None:
        return int(blocked[1]) in pids
    process = _XID_PROCESS.search(text)
    return _XID.search(text) is not None and (process is None or int(process[1]) in pids)


def read_records(path: str, *words: bytes) -> str | None:
    """Return the records of the kernel's log `path` that contain any of `words`, one on each line; None if this user
    may not read the log."""
    found: list[bytes] = []
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
    except OSError:
        return None
    with file:
        for _ in range(_MOST_RECORDS):
            try:
                part = file.read(8192)
            except BrokenPipeError:  # the kernel has overwritten this record: the next read returns the one after it
                continue
            except OSError:  # no record can be read
                break
            if not part:  # each read returns one record, and None after the last
                break
            found += [part] if any(word in part for word in words) else []
    return b"".join(found).decode("utf-8", "replace")
