"""/dev/shm against what the job does with it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from recorded_node import node, row

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, OK, WARNING
from worldsize.wings.checks.agent.probes.shm import probe, refused_row, space_row, use_of
from worldsize.wings.checks.agent.readers.disk_space import Space

MIB = 1 << 20
TORCH = {"framework": "pytorch"}


@pytest.mark.parametrize(
    "asked, total, free, verdict",
    [
        ({}, 64, 64, OK),
        (TORCH, 64, 64, WARNING),
        ({**TORCH, "workers": 0}, 64, 64, OK),
        ({**TORCH, "workers": 0, "ranks": 2, "backend": "nccl"}, 64, 64, WARNING),
        ({**TORCH, "workers": 0, "ranks": 2, "backend": "gloo"}, 64, 64, OK),
        ({**TORCH, "workers": 4, "ranks": 8}, 16384, 2047, WARNING),
        ({**TORCH, "workers": 4, "ranks": 8}, 16384, 2048, OK),
        ({**TORCH, "workers": 1}, 64, 64, OK),
        ({"workers": 2, "ranks": 1}, 64, 60, WARNING),
        (TORCH, 257000, 0, OK),
        ({"framework": "none", "ranks": 4}, 64, 64, OK),
        ({**TORCH, "workers": "2", "ranks": -1}, 64, 64, WARNING),
    ],
)
def test_room(tmp_path: Path, asked: dict[str, Any], total: int, free: int, verdict: str) -> None:
    context = node(tmp_path, asked)
    found = space_row(context, Space(total * MIB, free * MIB), use_of(context))
    assert found.verdict == verdict, found
    assert ("--shm-size" in found.hint) == (verdict == WARNING)


def test_virtual_nodes_share_one(tmp_path: Path) -> None:
    context = node(tmp_path, {"workers": 2, "ranks": 2, "virtual": True}, nodes=4)
    assert use_of(context).workers == 16


@pytest.mark.parametrize(
    "asked, verdict",
    [
        ({}, WARNING),
        ({"workers": 1}, BAD),
        ({"workers": 0}, WARNING),
        ({"ranks": 2, "backend": "nccl"}, BAD),
        ({"ranks": 1, "backend": "nccl"}, WARNING),
        ({"ranks": 2, "backend": "gloo"}, WARNING),
    ],
)
def test_refused(tmp_path: Path, asked: dict[str, Any], verdict: str) -> None:
    context = node(tmp_path, asked)
    found = refused_row(context, OSError(errno.ENOSPC, ""), use_of(context))
    assert (found.verdict, found.value) == (verdict, "No space left on device")


def test_missing(tmp_path: Path) -> None:
    found = row(probe(node(tmp_path, {"workers": 4})), "memory.shm")
    assert (found.verdict, found.value) == (BAD, "No such file or directory")


def test_directory_that_is_there(tmp_path: Path) -> None:
    context = node(tmp_path)
    (tmp_path / "machine" / "dev" / "shm").mkdir(parents=True)
    assert row(probe(context), "memory.shm").verdict == OK
    assert list((tmp_path / "machine" / "dev" / "shm").iterdir()) == []


def test_file_system_without_a_size(tmp_path: Path) -> None:
    context = node(tmp_path, {"workers": 4})
    assert space_row(context, Space(0, 0), use_of(context)).verdict == OK
