"""One file for all nodes: each passes on what it has so far, and whoever breaks off is replaced by the next one up."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_pack import a_prefix, packed

from worldsize.agent.copying import Stopped
from worldsize.agent.passing import Door, Growing, ancestors, ask_carried, open_listener, receive
from worldsize.agent.readiness import Neighbours
from worldsize.agent.unpack import Damaged
from worldsize.agent.unpacking import Unpacking
from worldsize.environment.pack import Packed
from worldsize.plan.local import Archive

TOKEN = "0123456789abcdef0123456789abcdef"


def never() -> bool:
    return False


def as_archive(found: Packed, tree: bool = True, carrier: Sequence[str] = ()) -> Archive:
    return Archive(found.path, found.digest, found.size, "/old", tree, tuple(carrier))


class Nodes:
    """So many nodes, each with a disk of its own."""

    def __init__(self, root: Path, count: int, archive: Archive, doors: Sequence[tuple[str, int]] = ()) -> None:
        listeners = [open_listener() for _ in range(count)]
        known = doors or [("127.0.0.1", listener.getsockname()[1]) for listener in listeners]
        self.nodes: list[Unpacking] = []
        for number, listener in enumerate(listeners):
            disk = root / ("disk-%d" % number)
            (disk / "run").mkdir(parents=True, exist_ok=True)
            near = Neighbours(number, tuple(known), listener, TOKEN)
            self.nodes.append(Unpacking(archive, str(disk), str(disk / "run"), near, never))
        self.errors: list[BaseException] = []

    def run(self, *only: int) -> list[str]:
        threads = [threading.Thread(target=self._run, args=(number,)) for number in only or range(len(self.nodes))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        for node in self.nodes:
            node.close()
        return [node.path for node in self.nodes]

    def _run(self, number: int) -> None:
        try:
            self.nodes[number].run()
        except (OSError, Stopped) as error:
            self.errors.append(error)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    root = tmp_path_factory.mktemp("packed")
    return packed(a_prefix(root), root / "env.tar.gz")


def test_who_asks_whom() -> None:
    assert ancestors(0) == [] and ancestors(1) == ancestors(2) == [0]
    assert ancestors(12) == [5, 2, 0]


def test_all_nodes_get_it_and_the_shared_file_is_read_once(archive: Packed, tmp_path: Path) -> None:
    """Removed after the head has begun, so that nobody else can have read it."""
    copy = tmp_path / "env.tar.gz"
    os.link(archive.path, copy)
    nodes = Nodes(tmp_path, 7, as_archive(archive._replace(path=str(copy))))
    head = threading.Thread(target=nodes.nodes[0].run)
    head.start()
    head.join()
    copy.unlink()
    paths = nodes.run(*range(1, 7))
    assert not nodes.errors and all(os.path.exists(path + "/bin/tool") for path in paths)
    assert len(set(paths)) == 7 and not list(tmp_path.glob("disk-*/run/*"))


def test_the_next_run_finds_it_on_the_disk(archive: Packed, tmp_path: Path) -> None:
    first = Nodes(tmp_path, 2, as_archive(archive)).run()
    gone = as_archive(archive)._replace(file="/gone")
    assert Nodes(tmp_path, 2, gone).run() == first
    new = tmp_path / "disk-2"
    third = Nodes(tmp_path, 3, as_archive(archive))
    assert os.path.exists(third.run()[2] + "/bin/tool") and new.is_dir(), "nodes that have it pass it on all the same"


def test_without_a_way_to_the_others_the_shared_file_is_read(archive: Packed, tmp_path: Path) -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        nodes = Nodes(tmp_path, 3, as_archive(archive), [deaf.getsockname()] * 3)
        assert all(os.path.exists(path + "/bin/tool") for path in nodes.run()) and not nodes.errors


@pytest.mark.parametrize("works", [True, False])
def test_a_carrier_of_the_computes_own(archive: Packed, tmp_path: Path, works: bool) -> None:
    """It copies to every node; where it fails, the nodes pass it on themselves."""
    carrier = tmp_path / "carry"
    body = 'for disk in %s/disk-*; do cp "$1" "$disk/$(basename "$2")"; done\n' % tmp_path if works else "exit 1\n"
    carrier.write_text("#!/bin/sh\necho $@ >> %s/carried\n%s" % (tmp_path, body))
    carrier.chmod(carrier.stat().st_mode | stat.S_IXUSR)
    nodes = Nodes(tmp_path, 4, as_archive(archive, carrier=[str(carrier)]))
    paths = nodes.run()
    assert not nodes.errors and all(os.path.exists(path + "/bin/tool") for path in paths)
    assert (tmp_path / "carried").read_text().count("\n") == 1
    ways = ["carried"] * 4 if works else ["read", "passed", "passed", "passed"]
    assert [node.way for node in nodes.nodes] == ways


def test_two_agents_of_a_machine_unpack_once(archive: Packed, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    near = Neighbours(0, (), None, TOKEN)
    both = [Unpacking(as_archive(archive, False), str(tmp_path), str(tmp_path / "run"), near, never) for _ in range(2)]
    threads = [threading.Thread(target=each.run) for each in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert both[0].path == both[1].path and os.path.exists(both[0].path + "/bin/tool")
    for each in both:
        each.close()
    assert os.path.exists(both[0].path + "/bin/tool"), "it stays for the next run"


def test_what_nobody_has_used_for_long_goes(archive: Packed, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    near = Neighbours(0, (), None, TOKEN)
    first = Unpacking(as_archive(archive, False), str(tmp_path), str(tmp_path / "run"), near, never)
    first.run()
    other = as_archive(archive, False)._replace(digest="0" * 64)
    second = Unpacking(other, str(tmp_path), str(tmp_path / "run"), near, never)
    os.utime(first.path + ".lock", (1, 1))
    with pytest.raises(Damaged):
        second.run()
    assert os.path.exists(first.path), "it is still held"
    first.close()
    os.utime(first.path + ".lock", (1, 1))
    with pytest.raises(Damaged):
        Unpacking(other, str(tmp_path), str(tmp_path / "run"), near, never).run()
    assert not os.path.exists(first.path)


def test_what_is_cut_off_half_way_is_gone_on_with_elsewhere(tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    (tmp_path / "whole").write_bytes(content)
    source = Growing(str(tmp_path / "source"), len(content), never)
    source.append(content)
    listener = open_listener()
    good = Door(listener, TOKEN, lambda carried: "/there" if carried else source)
    short = socket.create_server(("127.0.0.1", 0))

    def cut() -> None:
        connection, _ = short.accept()
        connection.recv(4096)
        connection.sendall(b'{"size":%d}\n' % len(content) + content[: 1 << 20])
        connection.close()

    threading.Thread(target=cut, daemon=True).start()
    target = Growing(str(tmp_path / "target"), len(content), never)
    doors = [("127.0.0.1", short.getsockname()[1]), ("127.0.0.1", listener.getsockname()[1])]
    receive(target, doors, TOKEN, never)
    assert hashlib.sha256(target.read_at(0, len(content))).digest() == hashlib.sha256(content).digest()
    assert ask_carried(doors[1], TOKEN) == "/there" and ask_carried(doors[1], "wrong") == ""
    with pytest.raises(ConnectionError):
        receive(Growing(str(tmp_path / "other"), 5, never), [doors[1]], "wrong", never)
    good.close(1)
    short.close()


def test_who_waits_is_told_of_a_failure_and_of_the_end(tmp_path: Path) -> None:
    growing = Growing(str(tmp_path / "a"), 10, never)
    threading.Timer(0.1, lambda: growing.fail(OSError(28, "No space left on device"))).start()
    with pytest.raises(OSError, match="No space"):
        growing.read_at(0, 10)
    began = time.monotonic()
    with pytest.raises(Stopped):
        Growing(str(tmp_path / "b"), 10, lambda: time.monotonic() > began + 0.2).read_at(0, 1)
