"""Which directories are relied on: all of a path counts, and what others could put in its place."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from security.people import ANNA, BEN, STRANGER, Machine, Person

from worldsize.errors import StorageError
from worldsize.trust.decisions import write_decision
from worldsize.trust.directories import (
    make_private_directory,
    may_others_create,
    real_path,
    require_reliable_directory,
    require_shared_directory,
)


@pytest.fixture(autouse=True)
def undecided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def made(root: str, name: str, mode: int = 0o755, uid: int = 0, gid: int = 0) -> str:
    path = os.path.join(root, name)
    os.mkdir(path)
    os.chown(path, uid, gid)
    os.chmod(path, mode)
    return path


@pytest.mark.parametrize("check", [make_private_directory, require_reliable_directory, require_shared_directory])
@pytest.mark.parametrize(
    ("mode", "uid", "gid", "why"),
    [
        (0o777, 0, 0, "every user may write to it"),
        (0o775, 0, BEN, "the group %d may write to it" % BEN),
        (0o755, ANNA, ANNA, "it belongs to uid %d" % ANNA),
        (0o1777, ANNA, ANNA, "it belongs to uid %d" % ANNA),
    ],
)
def test_directories_above_count(machine: Machine, check, mode: int, uid: int, gid: int, why: str) -> None:
    """Found by review: whoever may write above a directory can put another in its place once it was looked at."""
    above = made(machine.directory(0o755), "above", mode, uid, gid)
    own = made(made(above, "between"), "own", 0o700)
    for path in (own, own + "/missing/too", made(above, "directly", 0o700)):
        with pytest.raises(StorageError, match=why) as caught:
            check(path)
        assert caught.value.where == above
    assert os.listdir(own) == []


@pytest.mark.parametrize("check", [make_private_directory, require_reliable_directory, require_shared_directory])
def test_a_sticky_directory_of_roots_above(machine: Machine, check) -> None:
    own = made(machine.directory(0o1777), "own", 0o700)
    assert check(own) == own
    assert check(own + "/new/er") == own + "/new/er" and os.stat(own + "/new/er").st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["link", "link/", "link/below", "link/../link/below", "chain/below"])
def test_another_users_link_on_the_way(machine: Machine, name: str) -> None:
    place, target = machine.directory(0o1777), machine.directory(0o700)
    os.mkdir(target + "/below")
    os.symlink(target, place + "/link")
    os.chown(place + "/link", ANNA, ANNA, follow_symlinks=False)
    os.symlink("link", place + "/chain")
    for check in (make_private_directory, require_reliable_directory, require_shared_directory):
        with pytest.raises(StorageError, match="the link belongs to uid %d|it is a link" % ANNA):
            check(os.path.join(place, name))


def test_a_link_that_others_exchange_meanwhile(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by review: whose it is was told by one look, and where it leads by another."""
    place = machine.directory(0o777)
    for name, uid in (("ours", 0), ("theirs", ANNA)):
        os.mkdir(os.path.join(place, name + ".d"))
        os.symlink(name + ".d", os.path.join(place, name))
        os.chown(os.path.join(place, name), uid, uid, follow_symlinks=False)
    readlink = os.readlink

    def exchange_first(path: str, *, dir_fd: int | None = None) -> str:
        os.rename(os.path.join(place, "ours"), os.path.join(place, "former"))
        os.rename(os.path.join(place, "theirs"), os.path.join(place, "ours"))
        return readlink(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "readlink", exchange_first)
    assert real_path(os.path.join(place, "ours"), check_parents=False) == os.path.join(place, "ours.d")


def test_links_of_roots_are_followed(machine: Machine, tmp_path: Path) -> None:
    place, target = machine.directory(0o1777), machine.directory(0o755)
    os.mkdir(target + "/below")
    os.symlink(os.path.relpath(target, place), place + "/link")
    assert real_path(place + "/link/below/../below") == os.path.realpath(target) + "/below"
    assert require_reliable_directory(place + "/link/below")
    os.symlink("circle", place + "/circle")
    with pytest.raises(StorageError, match="too many links"):
        real_path(place + "/circle/x")


def test_what_is_trusted_covers_no_more_than_it_says(machine: Machine) -> None:
    from worldsize.trust.decisions import write_decision

    lab = machine.directory(0o2775, 0, BEN)
    write_decision(lab, True, os.environ)
    assert require_reliable_directory(made(lab, "of-the-group", 0o2775, 0, BEN))
    incoming = made(lab, "incoming", 0o1777)
    for mode, uid, gid in ((0o755, ANNA, ANNA), (0o775, 0, ANNA), (0o777, 0, 0)):
        path = made(incoming, "%o-%d" % (mode, gid), mode, uid, gid)
        with pytest.raises(StorageError):
            require_reliable_directory(path)


def test_a_group_that_cannot_write_to_what_is_trusted(machine: Machine) -> None:
    """Found by review: below it the same group could."""
    from worldsize.trust.decisions import write_decision

    lab = machine.directory(0o2755, 0, BEN)
    write_decision(lab, True, os.environ)
    assert require_reliable_directory(made(lab, "of-root", 0o2755, 0, BEN))
    with pytest.raises(StorageError, match="group"):
        require_reliable_directory(made(lab, "of-the-group", 0o2775, 0, BEN))


def test_an_access_list(machine: Machine) -> None:
    """Its mask stands where the group's rights do: a private group's right to write may be somebody else's."""
    path = made(machine.directory(0o755), "own", 0o770, 0, 0)
    assert require_reliable_directory(path)
    entries = ((1, 7, 0xFFFFFFFF), (2, 7, ANNA), (4, 7, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF))
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, "system.posix_acl_access", packed)
    with pytest.raises(StorageError, match="access list"):
        require_reliable_directory(path)


def test_an_access_list_below_what_is_trusted(machine: Machine) -> None:
    """Found by review: the mask's right to write counted as the group's, which was trusted."""
    lab = made(machine.directory(0o755), "lab", 0o775, 0, BEN)
    below = made(lab, "runs", 0o770, 0, BEN)
    write_decision(lab, True, os.environ)
    assert require_reliable_directory(below)
    entries = ((1, 7, 0xFFFFFFFF), (2, 7, ANNA), (4, 7, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF))
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(below, "system.posix_acl_access", packed)
    with pytest.raises(StorageError):
        require_reliable_directory(below)
    write_decision(below, True, os.environ)
    assert require_reliable_directory(below)
    os.setxattr(below, "system.posix_acl_access", packed.replace(struct.pack("<I", ANNA), struct.pack("<I", STRANGER)))
    with pytest.raises(StorageError):
        require_reliable_directory(below)


def test_the_group_of_what_is_trusted_has_only_a_list(machine: Machine) -> None:
    """Found by review: its members may not write to what is trusted, where the mode's bits are the list's mask."""
    lab = made(machine.directory(0o755), "lab", 0o775, 0, BEN)
    entries = ((1, 7, 0xFFFFFFFF), (2, 7, ANNA), (4, 5, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 5, 0xFFFFFFFF))
    packed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(lab, "system.posix_acl_access", packed)
    write_decision(lab, True, os.environ)
    assert require_reliable_directory(lab)
    with pytest.raises(StorageError, match="group"):
        require_reliable_directory(made(lab, "of-the-group", 0o775, 0, BEN))
    same = made(lab, "of-the-same", 0o775, 0, BEN)
    os.setxattr(same, "system.posix_acl_access", packed)
    assert require_reliable_directory(same)


def test_a_user_without_a_name(machine: Machine) -> None:
    """As `docker run --user` has it: with a umask of 002 all is writable for a group that is nobody else's."""
    anna: Person = machine.person(ANNA)
    del anna.environ["WORLDSIZE_TRUST_PROJECT"]
    os.chmod(anna.project, 0o775)
    path = anna.write("worldsize.toml", '[compute.local]\nsetup = ["true"]\n')
    os.chmod(path, 0o664)
    assert "does not count" not in anna("run", "-q", "--", "true").err
    anna.close()


def test_what_others_could_make_sooner(machine: Machine, tmp_path: Path) -> None:
    """Found by review: a link of one's own may lead to what is not there yet."""
    sticky, own = machine.directory(0o1777), machine.directory(0o755)
    os.symlink(sticky + "/later", tmp_path / "to the end")
    os.symlink(sticky + "/later/more", tmp_path / "on the way")
    os.symlink(own + "/later", tmp_path / "own")
    for path in (sticky + "/new", sticky + "/a/b/c", tmp_path / "to the end", tmp_path / "on the way" / "x"):
        assert may_others_create(str(path)), path
    for path in (sticky, own + "/new", own + "/a/b", tmp_path / "own", tmp_path / "own" / "x", "/proc/none"):
        assert not may_others_create(str(path)), path
