"""An input that another user can exchange for a link is mounted over itself alone, whenever that happens: tried at
each moment in turn."""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest

from worldsize.agent.posix import mounts
from worldsize.wings.provisioning.agent import read_only as readonly
from worldsize.wings.rehearsal.agent import namespaces

MOST_MOMENTS = 2000


def namespace() -> None:
    mounts.unshare_namespaces(mounts.NEW_MOUNTS)
    mounts.detach_mounts(mounts.PRIVATE)


pytestmark = pytest.mark.skipif(
    bool(mounts.find_obstacle(namespace)), reason="this system allows no mounts of one's own"
)


class Theirs:
    """A directory of the other user: `data`, an input, and `link`, which leads to what is the user's own."""

    def __init__(self, root: Path) -> None:
        self.own = root / "own"
        self.input = root / "theirs" / "data"
        self._link = root / "theirs" / "link"
        self._aside = root / "theirs" / "aside"
        self.own.mkdir()
        (self.own / "words").write_text("own")
        (root / "theirs").mkdir()
        self._link.symlink_to(self.own)
        (root / "run" / "disks").mkdir(parents=True)
        self.run = root / "run"

    def exchange(self) -> None:
        self.input.rename(self._aside)
        self._link.rename(self.input)


@pytest.fixture
def root() -> Iterator[Path]:
    """In the temporary directory, where a rehearsal mounts what its nodes share."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


def directly(theirs: Theirs, elsewhere: Path) -> None:
    """The input is a directory."""
    theirs.input.mkdir()
    (theirs.input / "words").write_text("theirs")


def by_a_link(theirs: Theirs, elsewhere: Path) -> None:
    """The input is a link to a directory."""
    elsewhere.mkdir()
    (elsewhere / "words").write_text("theirs")
    theirs.input.symlink_to(elsewhere)


def at_each_moment(root: Path, lay: Callable[[Theirs, Path], None], look: Callable[[Theirs], object]) -> list[object]:
    """What `look` says, in a process of its own each time, if the input is exchanged before the first call of the
    system, before the second one, and so on, until it is exchanged no more."""
    found: list[object] = []
    for moment in range(MOST_MOMENTS):
        place = root / str(moment)
        place.mkdir()
        theirs = Theirs(place)
        lay(theirs, place / "elsewhere")
        exchanged, said = forked(theirs, look, moment)
        found.append(said)
        if not exchanged:
            return found
    raise AssertionError("more than %d moments" % MOST_MOMENTS)


def forked(theirs: Theirs, look: Callable[[Theirs], object], moment: int) -> tuple[bool, object]:
    """Whether this process has exchanged the input for the other one, and what that says."""
    mine, its = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        mine.close()
        looked_at(theirs, look, moment, its)
    its.close()
    exchanged = False
    with mine, mine.makefile("rb") as lines:
        for line in lines:
            if line != b"exchange\n":
                os.waitpid(pid, 0)
                return exchanged, json.loads(line)
            theirs.exchange()
            exchanged = True
            mine.send(b".")
    raise AssertionError("it ended without a word")


def is_of_the_system(function: object) -> bool:
    """Whether it may look at a path: one of `os`, or of the C library."""
    return getattr(function, "__module__", "") == "posix" or type(function).__name__ == "_FuncPtr"


def looked_at(theirs: Theirs, look: Callable[[Theirs], object], moment: int, line: socket.socket) -> NoReturn:
    count, process = 0, os.getpid()

    def profile(frame: FrameType, event: str, value: object) -> None:
        nonlocal count
        count += event == "c_call" and is_of_the_system(value)
        if os.getpid() != process:  # one that only tries
            sys.setprofile(None)
        elif count > moment:
            sys.setprofile(None)
            line.send(b"exchange\n")
            line.recv(1)

    try:
        sys.setprofile(profile)
        said = look(theirs)
        sys.setprofile(None)
    except Exception as error:  # noqa: BLE001  every one is an answer
        sys.setprofile(None)
        said = repr(error)
    line.send(json.dumps(said).encode() + b"\n")
    os._exit(0)


@pytest.mark.exhaustive
@pytest.mark.parametrize("lay", [directly, by_a_link])
def test_nodes_of_a_rehearsal(root: Path, lay: Callable[[Theirs, Path], None]) -> None:
    """Found by review: the input was opened, and mounted where its path led to by then, such as to Python's library."""

    def look(theirs: Theirs) -> object:
        refused = ""
        try:
            namespaces.mount_own_disks(str(theirs.run / "disks"), str(theirs.run), [str(theirs.input)], {})
        except OSError as error:
            refused = errno.errorcode[error.errno or 0]
        return [(theirs.own / "words").read_text(), refused]

    found = at_each_moment(root, lay, look)
    assert found[-1] == ["own", ""], "without an exchange it works"
    assert all(said in (["own", ""], ["own", "ELOOP"], ["own", "ENOENT"]) for said in found), found


@pytest.mark.exhaustive(unless=["by_a_link"])
@pytest.mark.parametrize("lay", [directly, by_a_link])
def test_an_input_that_is_mounted_read_only(root: Path, lay: Callable[[Theirs, Path], None]) -> None:
    """Found by review: its path was looked up four times, in two of them for one mount, and whatever it led to by then
    was covered; an exchange between two of them ended the agent."""
    for said in at_each_moment(root, lay, read_only):
        assert isinstance(said, list), said
        words, refused = said
        assert words == "own", said
        assert all("replaced" in text or "No such file" in text for text in refused), said
    assert said == ["own", []], "without an exchange it works"


def read_only(theirs: Theirs) -> object:
    refused = readonly.make_read_only([str(theirs.input)], str(theirs.run))
    return [(theirs.own / "words").read_text(), refused]


def test_no_mount_of_an_input_is_by_its_name(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call of mount(2) looks up two names: nothing else shows what happens between them."""
    theirs = Theirs(root)
    directly(theirs, root / "elsewhere")
    call, named = mounts.call_kernel, []

    def recorded(name: str, *arguments: object) -> None:
        named.extend(each.decode() for each in arguments[:2] if name == "mount" and isinstance(each, bytes))
        call(name, *arguments)

    def attempt() -> None:
        read_only(theirs)
        raise OSError(0, " ".join(sorted({name.rstrip("0123456789") for name in named})))

    monkeypatch.setattr(mounts, "call_kernel", recorded)
    assert mounts.find_obstacle(attempt) == "/ /proc/self/fd/ none"
