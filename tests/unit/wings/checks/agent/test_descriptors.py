"""What a node program keeps open of its agent's: what its modules are read from, and no connection."""

from __future__ import annotations

import os

import pytest

from worldsize.wings.checks.agent.node_program import close_all_but, import_descriptors


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        (["/home/ada/run/agent.pyz", "/usr/lib/python3.11"], []),
        (["/proc/self/fd/3/agent.pyz", "/usr/lib/python3.11"], [3]),
        (["/proc/self/fd/17", "/proc/self/fd/3x/agent.pyz", "/proc/1/fd/5/agent.pyz", ""], [17]),
    ],
)
def test_modules_may_be_found_through_an_open_directory(path: list[str], kept: list[int]) -> None:
    assert import_descriptors(path) == kept


def test_all_else_is_closed() -> None:
    """Found on HPC Pack, where an agent is started through descriptor 3: its node program could import nothing more."""
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(4)]
    pid = os.fork()
    if pid == 0:
        try:
            close_all_but((opened[2], 0, opened[0]))
            left = {int(name) for name in os.listdir("/proc/self/fd") if int(name) in opened}
            os._exit(0 if left == {opened[0], opened[2]} else 1)
        finally:
            os._exit(2)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for descriptor in opened:
        os.close(descriptor)
    assert code == 0
