"""Which messages of the kernel's log are about this user's processes."""

from __future__ import annotations

import os
import time

import pytest

from worldsize.agent.machine import kernel_messages
from worldsize.agent.machine.kernel_messages import read_kernel_messages

KILLED = "Out of memory: Killed process 4711 (python) total-vm:78308kB, UID:%d pgtables:188kB"
KILLED_IN = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=%s,task_memcg=%s,"
    "task=python,pid=4711,uid=0"
)
BLOCKED = "INFO: task python:%d blocked for more than 120 seconds."


def read(tmp_path, *texts: str, age: float = 20.0, failed: float = 20.0) -> list[str]:
    """The messages, so many seconds old, of a run that failed so many seconds ago, of whose ranks 42 is a process."""
    log = tmp_path / "kmsg"
    at = int((time.monotonic() - age) * 1e6)
    log.write_text("".join("3,8386,%d,-;%s\n SUBSYSTEM=memory\n" % (at, text) for text in texts))
    found = read_kernel_messages(time.time() - 60.0, time.time() - failed, (42,), str(log))
    assert all(abs(message.time - time.time() + age) < 5.0 for message in found)
    return [message.text for message in found]


def test_kills_of_this_user_alone(tmp_path) -> None:
    own, others = KILLED % os.getuid(), KILLED % (os.getuid() + 1)
    assert read(tmp_path, own, others, "python invoked oom-killer: gfp_mask=0xcc0") == [own]


def test_kills_of_other_processes_at_the_time_of_the_failure_alone(tmp_path) -> None:
    child, rank = KILLED % os.getuid(), KILLED.replace("4711", "42") % os.getuid()
    assert read(tmp_path, child, rank, failed=5.0) == [rank]


@pytest.mark.parametrize(
    ("own", "full", "killed", "told"),
    [
        ("/job", "/job", "/job", 1),
        ("/job", "/job", "/job/step", 1),
        ("/job/step", "/job", "/job/step", 1),
        ("/job", "/job/step", "/job/step", 0),
        ("/job/step", "/job", "/job/other", 0),
        ("/job", "/job2", "/job2", 0),
        (None, "/job", "/job", 0),
    ],
)
def test_kills_for_want_of_a_groups_memory_in_the_own_group_alone(
    tmp_path, monkeypatch: pytest.MonkeyPatch, own: str | None, full: str, killed: str, told: int
) -> None:
    """Found when another run, beside this one or in a group below its own, was killed as this one failed."""
    monkeypatch.setattr(kernel_messages, "memory_group", lambda: own)
    message = "Memory cgroup o" + KILLED[1:] % os.getuid()
    assert read(tmp_path, KILLED_IN % (full, killed), message) == [message] * told
    rank = message.replace("4711", "42")
    assert read(tmp_path, KILLED_IN.replace("4711", "42") % (full, killed), rank) == [rank], "a rank's own"


def test_waits_of_ranks_alone(tmp_path) -> None:
    assert read(tmp_path, BLOCKED % 42, BLOCKED % 43) == [BLOCKED % 42]


def test_errors_of_gpus_that_name_no_process_of_others(tmp_path) -> None:
    lost = "NVRM: Xid (PCI:0000:5f:00): 79, GPU has fallen off the bus."
    own, others = ("NVRM: Xid (PCI:0000:5f:00): 31, pid=%d, name=python, MMU Fault" % pid for pid in (42, 43))
    assert read(tmp_path, lost, own, others) == [lost, own]


def test_what_was_long_before_is_no_message(tmp_path) -> None:
    assert read(tmp_path, KILLED % os.getuid(), age=120.0) == []


def test_a_log_that_cannot_be_read_or_says_anything_says_nothing(tmp_path) -> None:
    (tmp_path / "kmsg").write_bytes(
        b"\xff\0Killed process 1 UID:0\n3,,,;NVRM: Xid\n9,9,99999999999999999999,-;Killed process"
    )
    assert read_kernel_messages(0.0, 0.0, (), str(tmp_path / "kmsg")) == []
    assert read_kernel_messages(0.0, 0.0, (), str(tmp_path / "none")) == []
    assert read_kernel_messages(0.0, 0.0, (), str(tmp_path)) == []
