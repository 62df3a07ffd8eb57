"""Files that worldsize writes beside a person's own, where others may write, too."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from driver import Cli
from security.people import BEN, Machine, Person

from worldsize.trust.documents import open_document, write_document

SCRIPT = """\
import torch
from torch import nn
net = nn.DataParallel(nn.Linear(3, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(torch.ones(8, 3), batch_size=2):
    net(x).sum().backward()
    optimizer.step()
"""
PLANT = "import os, sys\nfor name in sys.argv[3:]: os.symlink(sys.argv[2], os.path.join(sys.argv[1], name))"


@pytest.fixture
def precious(victim: Cli, uid: int) -> Path:
    path = Path(victim.write("precious.txt", "precious"))
    os.chown(path, uid, uid)
    return path


def test_a_simulator_asks_for_a_directory_that_others_cannot_write_to(
    victim: Cli, attacker: Person, machine: Machine, precious: Path
) -> None:
    """Found by review: its files were written through links of others, and what they had put in their place by the time
    that it answered was trusted for good."""
    lab = machine.directory(0o777)
    names = [name + suffix for name in ("hpcpack-ca.pem", "worldsize.toml") for suffix in ("", ".new")]
    attacker.python(PLANT, lab, str(precious), *names)
    refused = victim("simulate", "hpcpack", "--share", lab + "/app", "--nodes", "1")
    assert refused.code != 0 and "every user may write to it" in refused.err and "config trust" in refused.err
    assert precious.read_text() == "precious" and sorted(os.listdir(lab)) == sorted(names)


def test_init_overwrites_nothing_through_a_link_of_anothers(
    victim: Cli, attacker: Person, machine: Machine, precious: Path
) -> None:
    lab = machine.directory(0o777)
    attacker.python(PLANT, lab, str(precious), "worldsize.schema.json", "worldsize.toml", "job.yml")
    for words in (("init", lab, "-y"), ("init", lab, "-y", "--force")):
        refused = victim(*words)
        assert refused.code != 0 and "Traceback" not in refused.err
    assert precious.read_text() == "precious"


def test_a_link_of_anothers_is_refused(machine: Machine, tmp_path: Path) -> None:
    lab, target = machine.directory(0o777), tmp_path / "precious"
    target.write_text("precious")
    machine.person(BEN).python(PLANT, lab, str(target), "to.json")
    with pytest.raises(OSError, match="another user's link"):
        write_document(lab + "/to.json", b"x")
    assert target.read_text() == "precious" and os.listdir(lab) == ["to.json"]


def test_a_file_that_is_exchanged_for_a_link(machine: Machine, tmp_path: Path) -> None:
    """Found by review: the name was looked at twice, and was another thing the second time."""
    ben, lab, target = machine.person(BEN), machine.directory(0o777), tmp_path / "precious"
    target.write_text("precious")
    flip = """
import ctypes, os, sys
os.chdir(sys.argv[1])
os.symlink(sys.argv[2], "other")
print(flush=True)
exchange = ctypes.CDLL(None).renameat2
while not os.path.exists("stop"):
    exchange(-100, b"name", -100, b"other", 2)
"""
    Path(lab, "name").write_text("")
    with ben.start_python(flip, lab, str(target)) as process:
        assert process.stdout is not None and process.stdout.readline()
        for _ in range(2000):
            with contextlib.suppress(OSError):
                write_document(lab + "/name", b"x")
            with contextlib.suppress(OSError):
                open_document(lab + "/name").close()
        Path(lab, "stop").touch()
        assert process.wait(30) == 0
    assert target.read_text() == "precious"


def test_the_mode_of_somebody_elses_file_is_not_taken(machine: Machine) -> None:
    """Found by review: a set-user-ID bit that another had set was root's then, and everybody could write to it."""
    lab = machine.directory(0o777)
    script = "import os, sys; os.close(os.open(sys.argv[1], os.O_CREAT)); os.chmod(sys.argv[1], 0o4777)"
    machine.person(BEN).python(script, lab + "/x")
    write_document(lab + "/x", b"x")
    status = os.stat(lab + "/x")
    assert status.st_uid == os.geteuid() and status.st_mode & 0o6022 == 0


def test_a_directory_that_is_a_link_of_anothers(victim: Cli, attacker: Person, machine: Machine, uid: int) -> None:
    """Found by review: only the last name of a path was looked at."""
    shared = machine.directory(0o1777)
    job = victim.write("work/job.yml", "precious")
    for path in (job, os.path.dirname(job)):
        os.chown(path, uid, uid)
    attacker.python(PLANT, shared, os.path.dirname(job), "project")
    refused = victim("init", "-y", "--force", shared + "/project")
    assert refused.code != 0 and "Traceback" not in refused.err and Path(job).read_text() == "precious"
    with pytest.raises(OSError, match="another user's link"):
        write_document(shared + "/project/job.yml", b"x")
    assert os.listdir(os.path.dirname(job)) == ["job.yml"]


def test_convert_writes_through_no_link_of_anothers(machine: Machine, tmp_path: Path) -> None:
    cli, lab, own = Cli(str(tmp_path)), machine.directory(0o777), tmp_path / "own.py"
    own.write_text(SCRIPT)
    before = own.read_text()
    machine.person(BEN).python(PLANT, lab, str(own), "train.py")
    refused = cli("convert", "--write", lab + "/train.py")
    assert refused.code != 0 and "another user's link" in refused.err and own.read_text() == before
    cli.close()


def test_links_modes_and_devices_of_ones_own_are_as_they_were(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o604)
    link.symlink_to("target")
    write_document(str(link), b"new")
    assert link.is_symlink() and target.read_bytes() == b"new" and target.stat().st_mode & 0o777 == 0o604
    write_document("/dev/null", b"x")
    old = os.umask(0o027)
    try:
        write_document(str(tmp_path / "made"), b"x")
    finally:
        os.umask(old)
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(tmp_path)) == ["link", "made", "target"]
