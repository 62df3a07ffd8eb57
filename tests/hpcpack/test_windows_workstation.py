"""A client in WSL: what it sees of the share, and what Windows sees of the runs there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcpack.life import Client

FORBIDDEN = re.compile(r'[<>:"\\\\|?*\x00-\x1f]|[. ]$|^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\\.|$)', re.IGNORECASE)
LONGEST = 200
"""Of Windows' 260 characters for a path, those below the share; the rest is for its name there."""

DRVFS = """
import os

SHARE = %r

def place(path, dir_fd=None):
    base = os.readlink("/proc/self/fd/%%d" %% dir_fd) if dir_fd is not None else os.getcwd()
    path = os.readlink("/proc/self/fd/%%d" %% path) if isinstance(path, int) else os.path.join(base, os.fsdecode(path))
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))

def is_on_share(path, dir_fd=None):
    return place(path, dir_fd).startswith(SHARE + "/")

def shown(function):
    def make(path, *given, dir_fd=None, **named):
        result = function(path, *given, dir_fd=dir_fd, **named)
        if is_on_share(path, dir_fd) and os.path.exists(place(path, dir_fd)):
            chmod(place(path, dir_fd), 0o777)
        return result
    return make

def unchanged(function):
    return lambda path, *given, **named: None if is_on_share(path) else function(path, *given, **named)

def refused(function):
    def link(source, target, *given, dst_dir_fd=None, dir_fd=None, **named):
        fd = dst_dir_fd if dst_dir_fd is not None else dir_fd
        if is_on_share(target, fd):
            raise PermissionError(1, "Operation not permitted", target)
        more = {name: value for name, value in (("dst_dir_fd", dst_dir_fd), ("dir_fd", dir_fd)) if value is not None}
        return function(source, target, *given, **more, **named)
    return link

chmod = os.chmod
os.mkdir, os.open = shown(os.mkdir), shown(os.open)
os.chmod, os.fchmod = unchanged(os.chmod), unchanged(os.fchmod)
os.link, os.symlink = refused(os.link), refused(os.symlink)
"""
"""What makes a Python show the share as a mount by drvfs without metadata: all modes are 0777, and there are no
links."""


@pytest.fixture
def drvfs(client: Client, tmp_path: Path) -> Iterator[Client]:
    share = Path(client.simulator.share)
    mode = share.stat().st_mode & 0o7777
    (tmp_path / "sitecustomize.py").write_text(DRVFS % str(share.resolve()))
    client.environ["PYTHONPATH"] = os.pathsep.join((str(tmp_path), client.environ["PYTHONPATH"]))
    client.environ["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    client.home = client.environ["WORLDSIZE_HOME"] = str(tmp_path / "home")  # of Linux itself
    share.chmod(0o777)
    yield client
    share.chmod(mode)
    shutil.rmtree(share / "runs")  # for others it would be a directory to which everybody may write


def test_a_share_of_drvfs_is_refused_until_it_is_trusted(drvfs: Client) -> None:
    """Its modes say that every user may write there, and worldsize cannot know better."""
    refused = drvfs("run", "-w", "2x1", "--", "true")
    assert refused.code == 1 and "every user may write to it" in refused.err and "config trust" in refused.err
    drvfs.ok("config", "trust", drvfs.simulator.share)
    drvfs.job("echo rank $RANK; echo kept > outputs/kept-$RANK", "2x1", code=".")
    done = drvfs("run", "job.yml")
    assert done.code == 0, done.err
    assert sorted(done.out.splitlines()) == ["0:0: rank 0", "1:1: rank 1"]
    assert "no symbolic links" in done.err and "no permissions" in done.err


def test_a_script_with_the_line_ends_of_windows(client: Client) -> None:
    client.write("run.sh", "#!/bin/bash\r\necho hello\r\n")
    os.chmod(os.path.join(client.project, "run.sh"), 0o755)
    done = client("run", "-w", "1x1", "--", "./run.sh")
    assert done.code == 127 and "./run.sh: No such file or directory" in done.out + done.err
    client.ok("run", "-w", "1x1", "--", "sh", "-c", "sed -i 's/\\r$//' run.sh; ./run.sh")


def test_windows_can_show_every_file_of_a_run(client: Client) -> None:
    """People look at logs and outputs in Explorer: names are allowed there, unique without case, and not too long."""
    client.write("train.py", "print('hello')\n")
    words = ("--set", "count=2", "-w", "2x2", "--", "python3", "train.py")
    assert client("run", *words, timeout=120).code == 0
    runs = os.path.join(client.simulator.share, "runs")
    seen = 0
    for folder, folders, files in os.walk(runs):
        names = [*folders, *files]
        assert len({name.casefold() for name in names}) == len(names), folder
        for name in names:
            seen += 1
            assert not FORBIDDEN.search(name), os.path.join(folder, name)
            assert len(os.path.relpath(os.path.join(folder, name), client.simulator.share)) <= LONGEST
    assert seen > 50
