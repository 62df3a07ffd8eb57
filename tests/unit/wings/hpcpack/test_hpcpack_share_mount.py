"""The share's mount on a node: the script that does it is executed, with a `mount` that notes what it is asked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from worldsize.errors import UsageError
from worldsize.wings.hpcpack.share_mount import Mount, mount_of, script

SECRET = "a 'b\\c\"$d"


def asked(**words: str) -> Mount:
    given = {"share": r"\\HEAD\CcpSpoolDir\app", "at": "/app", "user": r"HPC\anna", "version": "3.0", **words}
    return mount_of(**{"owner": None, "mode": None, **given})  # type: ignore[arg-type]


class Node:
    """A root directory of its own, programs that a node's root has, and what `mount` was asked for."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fstab = root / "etc" / "fstab"
        self.fstab.parent.mkdir()
        self.fstab.write_text("# nothing yet\nproc /proc proc defaults 0 0\n")
        self.bin = root / "bin"
        self.bin.mkdir()
        for name, text in (
            ("mount", 'echo "$@" >>"$DESTDIR/mounted"'),
            ("mount.cifs", "exit 1"),
            ("mountpoint", '[ -e "$DESTDIR/mounted" ]'),
            ("id", 'case "$1" in -u) echo 0 ;; anna) echo 1001 ;; *) exit 1 ;; esac'),
        ):
            (self.bin / name).write_text("#!/bin/sh\n%s\n" % text)
            (self.bin / name).chmod(0o755)

    def run(self, mount: Mount, typed: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        path = os.pathsep.join((str(self.bin), os.environ["PATH"]))
        environ = {"PATH": path, "DESTDIR": str(self.root), **environ}
        return subprocess.run(
            ["/bin/sh", "-s"] if not typed else ["/bin/sh", "-c", script(mount)],
            input=typed or script(mount), env=environ, capture_output=True, text=True, check=False,
        )  # fmt: skip

    @property
    def credentials(self) -> Path:
        return self.root / "etc" / "worldsize-app.credentials"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_it_mounts_now_and_at_every_start_with_the_password_in_a_file_of_roots_alone(node: Node) -> None:
    done = node.run(asked(), WORLDSIZE_HPCPACK_PASSWORD=SECRET)
    assert (done.returncode, done.stdout) == (0, "//HEAD/CcpSpoolDir/app is mounted at /app\n"), done
    assert node.credentials.read_text() == "username=anna\npassword=%s\ndomain=HPC\n" % SECRET
    assert node.credentials.stat().st_mode & 0o777 == 0o600
    share, at, kind, options, dump, order = node.fstab.read_text().splitlines()[-1].split()
    assert (share, at, kind, dump, order) == ("//HEAD/CcpSpoolDir/app", "/app", "cifs", "0", "0")
    assert options.split(",") == [
        "credentials=/etc/worldsize-app.credentials", "vers=3.0", "uid=anna", "dir_mode=0700", "file_mode=0700",
        "mfsymlinks", "nosuid", "nodev", "_netdev", "nofail",
    ]  # fmt: skip
    assert (node.root / "mounted").read_text() == "/app\n" and (node.root / "app").is_dir()
    assert SECRET not in node.fstab.read_text() + done.stdout + done.stderr


def test_again_it_changes_nothing(node: Node) -> None:
    node.run(asked(), WORLDSIZE_HPCPACK_PASSWORD=SECRET)
    before = node.fstab.read_text()
    done = node.run(asked())
    assert done.returncode == 0 and node.fstab.read_text() == before
    assert node.credentials.read_text().count(SECRET) == 1 and (node.root / "mounted").read_text() == "/app\n"


def test_a_new_password_takes_the_place_of_the_old_one_and_its_mode(node: Node) -> None:
    node.credentials.write_text("username=anna\npassword=old\n")
    node.credentials.chmod(0o644)
    assert node.run(asked(user="anna"), WORLDSIZE_HPCPACK_PASSWORD="new").returncode == 0
    assert node.credentials.read_text() == "username=anna\npassword=new\n"
    assert node.credentials.stat().st_mode & 0o777 == 0o600


def test_without_a_password_it_asks(node: Node) -> None:
    done = node.run(asked(), typed=" typed \n")
    assert done.returncode == 0 and "password of anna" in done.stderr
    assert "password= typed \n" in node.credentials.read_text()


def test_another_line_for_the_mount_point_is_not_touched(node: Node) -> None:
    node.fstab.write_text("//OTHER/x /app cifs vers=2.1 0 0\n")
    done = node.run(asked(), WORLDSIZE_HPCPACK_PASSWORD=SECRET)
    assert done.returncode == 1 and "another line for /app" in done.stderr
    assert node.fstab.read_text() == "//OTHER/x /app cifs vers=2.1 0 0\n" and not (node.root / "mounted").exists()


def test_what_is_missing_is_said(node: Node) -> None:
    done = node.run(asked(owner="jo"), WORLDSIZE_HPCPACK_PASSWORD=SECRET)
    assert done.returncode == 1 and "no account is named jo here" in done.stderr
    (node.bin / "mount.cifs").unlink()
    done = node.run(asked(), PATH=str(node.bin))
    assert done.returncode == 1 and "cifs-utils" in done.stderr
    (node.bin / "id").write_text("#!/bin/sh\necho 1000\n")
    done = node.run(asked())
    assert done.returncode == 1 and "needs root" in done.stderr


def test_owner_group_mode_and_version() -> None:
    mount = asked(owner="anna:hpcusers", at="/data/app/", version="2.1")
    assert (mount.at, mount.credentials) == ("/data/app", "/etc/worldsize-data-app.credentials")
    assert "vers=2.1,uid=anna,gid=hpcusers,dir_mode=0750,file_mode=0750" in mount.options
    assert "dir_mode=0777,file_mode=0777" in asked(mode="0777").options


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"share": "/srv/app"}, "is not a share of a head node"),
        ({"share": "//HEAD"}, "is not a share of a head node"),
        ({"share": "//HEAD/a,b"}, "is not a share of a head node"),
        ({"at": "app"}, "is not a mount point"),
        ({"at": "/my app"}, "is not a mount point"),
        ({"at": "/"}, "is not a mount point"),
        ({"owner": "anna;reboot"}, "is not a Linux account"),
        ({"owner": "anna:g,uid=0"}, "is not a Linux account"),
        ({"user": ""}, "is not an account"),
        ({"user": "a\nb", "owner": "a"}, "is not an account"),
        ({"mode": "rw"}, "is not a mode"),
        ({"version": "3.0,uid=0"}, "is not a version of SMB"),
    ],
)
def test_words_that_name_nothing_are_refused(words: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(**words)
