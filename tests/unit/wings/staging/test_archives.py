"""Archives of others: whatever their members are called and whatever they link, nothing outside is touched."""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from worldsize.errors import UsageError
from worldsize.wings.staging.archives import unpack_archive

FILE, DIRECTORY, SYMLINK, LINK = tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE


class Member(NamedTuple):
    kind: bytes
    name: str
    link: str = ""
    mode: int = 0o755


class Place:
    """A directory `target` to be made, at the depth that a name of a member can climb, and what lies around it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.target = root / "a" / "b" / "target"
        for folder in (root, root / "a", root / "a" / "b", root / "b"):
            (folder / "private").mkdir(parents=True)
            (folder / "private").chmod(0o700)
            for name in ("private/key", "train.csv"):
                (folder / name).write_text("untouched")
                (folder / name).chmod(0o600)
        for path in [self.target.parent, *root.rglob("*")]:
            os.utime(path, (1_000_000_000, 1_000_000_000))

    def around(self) -> dict[str, tuple[int, int, int, bytes]]:
        """Names, modes, times, numbers of names and contents of everything but what is unpacked."""
        found = {}
        for path in [self.root, *self.root.rglob("*")]:
            if path == self.target or self.target in path.parents:
                continue
            status = path.lstat()
            changed = 0 if path in (self.root, self.target.parent) else status.st_mtime_ns  # the target is made there
            links = status.st_nlink if stat.S_ISREG(status.st_mode) else 0
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            found[str(path)] = (status.st_mode, changed, links, content)
        return found

    def unpack_tar(self, members: Sequence[Member]) -> None:
        archive = self.root / "data.tar"
        with tarfile.open(archive, "w") as file:
            for member in members:
                info = tarfile.TarInfo(member.name)
                info.type, info.linkname, info.mode, info.mtime = member.kind, member.link, member.mode, 5
                content = b"evil" if member.kind == FILE else b""
                info.size = len(content)
                file.addfile(info, io.BytesIO(content))
        data = archive.read_bytes()
        archive.unlink()
        (self.root / "archives").mkdir(exist_ok=True)
        archive = self.root / "archives" / "data.tar"
        archive.write_bytes(data)
        self.unpack(archive)

    def unpack(self, archive: Path) -> None:
        before = self.around()
        try:
            unpack_archive(str(archive), archive.name, str(self.target), "there")
        finally:
            assert self.around() == before
            for path in self.inside():
                status = path.lstat()
                assert not status.st_mode & 0o7000
                if stat.S_ISLNK(status.st_mode) and not in_a_circle(path):
                    real = os.path.realpath(path)
                    assert real == str(self.target) or real.startswith(str(self.target) + os.sep), path

    def inside(self) -> Iterator[Path]:
        return self.target.rglob("*")


def in_a_circle(path: Path) -> bool:
    """Of such links realpath makes up something."""
    try:
        os.stat(path)
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "top")


DEEP = "d0/d1/d2/d3"
LEADS_OUT = [
    Member(DIRECTORY, DEEP),
    Member(SYMLINK, DEEP + "/l", "../../../../private"),
]


@pytest.mark.parametrize(
    "members",
    [
        [*LEADS_OUT, Member(LINK, "labels", DEEP + "/l")],
        [*LEADS_OUT, Member(LINK, "d0/labels", DEEP + "/l")],
        [Member(DIRECTORY, "s"), *LEADS_OUT, Member(LINK, "s", DEEP + "/l")],
        # the modes of directories are set at the end, by then `s` leads elsewhere
        [
            Member(DIRECTORY, DEEP),
            Member(SYMLINK, "s", "d0"),
            Member(DIRECTORY, "s/private", mode=0o777),
            Member(SYMLINK, DEEP + "/l", "../../../.."),
            Member(LINK, "s", DEEP + "/l"),
        ],
        # the same without a hard link: what a link leads to is replaced by another link
        [
            Member(DIRECTORY, "x/y"),
            Member(SYMLINK, "s", "x"),
            Member(SYMLINK, "s/up", ".."),
            Member(LINK, "up", "s/up"),
            Member(FILE, "up/evil"),
        ],
        # what is below a link really lies elsewhere, from where there are fewer steps to the top
        [Member(SYMLINK, "d0/d1/up", "../.."), Member(SYMLINK, "d0/d1/up/l", "../../../private")],
        [Member(SYMLINK, "d0/d1/up", "../.."), Member(FILE, "x"), Member(LINK, "d0/d1/up/l", "x")],
        [Member(LINK, "l", "../train.csv"), Member(FILE, "l")],
        [Member(LINK, "l", "/etc/hostname")],
        [Member(SYMLINK, "l", "."), Member(LINK, "m", "l/../../train.csv")],
        [Member(SYMLINK, "l", ".."), Member(DIRECTORY, "l/private")],
        [Member(SYMLINK, "l", ""), Member(FILE, "l/x")],
        [Member(FILE, ""), Member(FILE, ".")],
        [Member(DIRECTORY, ".."), Member(DIRECTORY, "x/../..", mode=0o777)],
    ],
)
def test_no_order_of_members_leads_out(place: Place, members: list[Member]) -> None:
    """Found by review: a hard link to a symbolic link has another place, from where that leads elsewhere; and modes of
    directories were set by their paths, once these led elsewhere."""
    with pytest.raises(UsageError, match=r"leads outside it|below a link|not a readable archive"):
        place.unpack_tar(members)


def test_a_hard_link_to_a_link_is_a_link_of_its_own(place: Place) -> None:
    place.unpack_tar(
        [
            Member(FILE, "lib/a.so.1"),
            Member(SYMLINK, "lib/a.so", "a.so.1"),
            Member(LINK, "lib/b.so", "lib/a.so"),
            Member(LINK, "c.so", "lib/a.so.1"),
        ]
    )
    assert os.readlink(place.target / "lib/b.so") == "a.so.1"
    assert (place.target / "lib/b.so").lstat().st_ino != (place.target / "lib/a.so").lstat().st_ino
    assert (place.target / "c.so").samefile(place.target / "lib/a.so.1")


def test_names_and_modes_of_what_it_holds(place: Place) -> None:
    """The last member of a name counts, and replaces what has it: a second name of that keeps its content."""
    place.unpack_tar(
        [
            Member(DIRECTORY, "./"),
            Member(DIRECTORY, "./data//deep/", mode=0o500),
            Member(FILE, "./data/./deep/x", mode=0o6755),
            Member(FILE, "data/gone/../y", mode=0o666),
            Member(LINK, "z", "./data/y"),
            Member(FILE, "data/y", mode=0o400),
            Member(tarfile.CHRTYPE, "null"),
        ]
    )
    modes = {str(path.relative_to(place.target)): path.stat().st_mode & 0o7777 for path in place.inside()}
    assert modes == {
        "data": 0o755, "data/deep": 0o700, "data/deep/x": 0o755, "data/y": 0o600, "z": 0o644
    }  # fmt: skip
    assert (place.target / "data/deep").stat().st_mtime == 5 == (place.target / "z").stat().st_mtime


@pytest.mark.parametrize(
    "members",
    [
        [Member(LINK, "x", "gone")],
        [Member(DIRECTORY, "d"), Member(LINK, "x", "d")],
        [Member(DIRECTORY, "d"), Member(FILE, "d")],
        [Member(FILE, "d"), Member(FILE, "d/x")],
        [Member(FILE, "d"), Member(DIRECTORY, "d")],
        [Member(FILE, "/".join("d" * 300))],
        [Member(FILE, "x" * 300)],
    ],
)
def test_what_cannot_be_is_said_in_one_line(place: Place, members: list[Member]) -> None:
    with pytest.raises(UsageError, match="not a readable archive") as refused:
        place.unpack_tar(members)
    assert "\n" not in refused.value.what


@pytest.mark.parametrize("said", [{"path": "x\0y"}, {"mtime": "nan"}, {"mtime": "1e300"}, {"mtime": "inf"}])
def test_numbers_and_names_that_no_file_can_have(place: Place, said: dict[str, str]) -> None:
    (place.root / "archives").mkdir()
    path = place.root / "archives" / "data.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("x")
        info.pax_headers = said
        archive.addfile(info)
    with pytest.raises(UsageError, match="not a readable archive"):
        place.unpack(path)


@pytest.mark.parametrize("said", [{"comment": "y" * (1 << 21)}, {"path": "x" * (1 << 21)}], ids=["attribute", "name"])
@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
def test_names_and_attributes_that_would_fill_the_memory(place: Place, said: dict[str, str], kind: int) -> None:
    """Found by review: a compressed header of two megabytes took 400 of memory."""
    (place.root / "archives").mkdir()
    path = place.root / "archives" / "data.tar.gz"
    with tarfile.open(path, "w:gz", format=kind) as archive:
        info = tarfile.TarInfo(said.get("path", "x" * (1 << 21)))
        info.pax_headers = said if kind == tarfile.PAX_FORMAT else {}
        archive.addfile(info)
    with pytest.raises(UsageError, match=r"not a readable archive: [\s\S]*a header of \d{7} bytes"):
        place.unpack(path)


@pytest.mark.parametrize("names", [["../x"], ["/tmp/x"], ["a/../../x"], ["."], ["a/.."], ["a", "a/b"], ["a/b", "a"]])
def test_a_zip_file_writes_nowhere_else(place: Place, names: list[str]) -> None:
    with pytest.raises(UsageError):
        place.unpack(a_zip(place.root, names))


def a_zip(root: Path, names: Sequence[str]) -> Path:
    (root / "archives").mkdir()
    path = root / "archives" / "data.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number, name in enumerate(names):
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFLNK | 0o777 if number % 3 == 2 else stat.S_IFREG | 0o6777) << 16
            archive.writestr(info, "../../private")
    return path
