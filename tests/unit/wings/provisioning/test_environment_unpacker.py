"""A packed environment on a node's disk: unpacked once, kept for later runs, and gone when nobody uses it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from packed_environments import a_prefix, packed

from worldsize.plan.node_disk import PackedEnvironment
from worldsize.service.request import EnvironmentPack
from worldsize.wings.provisioning.agent.copy import PreparationStopped
from worldsize.wings.provisioning.agent.environment import EnvironmentUnpacker
from worldsize.wings.provisioning.agent.unpack import DamagedPack


def never() -> bool:
    return False


def as_archive(found: EnvironmentPack) -> PackedEnvironment:
    return PackedEnvironment(found.path, found.digest, found.size, "/old")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> EnvironmentPack:
    root = tmp_path_factory.mktemp("packed")
    return packed(a_prefix(root), root / "env.tar.gz")


def test_the_next_run_finds_it_on_the_disk(archive: EnvironmentPack, tmp_path: Path) -> None:
    first = EnvironmentUnpacker(as_archive(archive), str(tmp_path), never)
    first.run()
    first.close()
    second = EnvironmentUnpacker(as_archive(archive)._replace(file="/gone"), str(tmp_path), never)
    second.run()
    second.close()
    assert second.path == first.path and os.path.exists(first.path + "/bin/tool")


def test_nothing_is_left_of_what_was_stopped(archive: EnvironmentPack, tmp_path: Path) -> None:
    stopped = EnvironmentUnpacker(as_archive(archive), str(tmp_path), lambda: True)
    with pytest.raises(PreparationStopped):
        stopped.run()
    stopped.close()
    assert not [path for path in tmp_path.rglob("*") if path.suffix == ".part"]


def test_two_agents_of_a_machine_unpack_once(archive: EnvironmentPack, tmp_path: Path) -> None:
    both = [EnvironmentUnpacker(as_archive(archive), str(tmp_path), never) for _ in range(2)]
    threads = [threading.Thread(target=each.run) for each in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert both[0].path == both[1].path and os.path.exists(both[0].path + "/bin/tool")
    for each in both:
        each.close()
    assert os.path.exists(both[0].path + "/bin/tool"), "it stays for the next run"


def test_what_nobody_has_used_for_long_goes(archive: EnvironmentPack, tmp_path: Path) -> None:
    first = EnvironmentUnpacker(as_archive(archive), str(tmp_path), never)
    first.run()
    other = as_archive(archive)._replace(digest="0" * 64)
    second = EnvironmentUnpacker(other, str(tmp_path), never)
    os.utime(first.path + ".lock", (1, 1))
    with pytest.raises(DamagedPack):
        second.run()
    assert os.path.exists(first.path), "it is still held"
    first.close()
    os.utime(first.path + ".lock", (1, 1))
    with pytest.raises(DamagedPack):
        EnvironmentUnpacker(other, str(tmp_path), never).run()
    assert not os.path.exists(first.path)
