"""The name of a user's own directory on a node's disk, where others may make directories: taken by somebody else."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable

import pytest
from driver import Cli
from security.people import ANNA, STRANGER, Machine, Person

OCCUPY = """
import os, sys
path, kind = sys.argv[1:]
if kind == "directory":
    os.mkdir(path, 0o777)
elif kind == "closed":
    os.mkdir(path, 0o700)
elif kind == "link":
    os.symlink(os.getcwd(), path)
else:
    open(path, "w").close()
"""
FIND = """
import sys
from worldsize.wings.provisioning.agent.directory import ensure_own_directory
print(ensure_own_directory(sys.argv[1]))
"""
Occupy = Callable[..., None]
KINDS = pytest.mark.parametrize("kind", ["directory", "closed", "link", "file"])


@pytest.fixture
def disk(machine: Machine) -> str:
    """As /tmp is."""
    return machine.directory(0o1777)


@pytest.fixture
def occupy(attacker: Person, disk: str, uid: int) -> Occupy:
    """The attacker takes a name of the victim's."""

    def act(kind: str, more: str = "") -> None:
        attacker.python(OCCUPY, os.path.join(disk, "worldsize-%d%s" % (uid, more)), kind)

    return act


@KINDS
def test_inputs_are_copied_beside_it(victim: Cli, disk: str, occupy: Occupy, uid: int, kind: str) -> None:
    """Found by review: each run with such an input failed, for as long as the stranger wanted."""
    occupy(kind)
    victim.write("data.txt", "digits")
    victim.write("worldsize.toml", "[compute.local]\nlocal_dir = %s\n" % json.dumps(disk))
    victim.write(
        "job.yml",
        "command: cat ${{inputs.data}}; echo; echo ${{inputs.data}}\ncode: null\nresources: {instance_count: 2}\n"
        "inputs: {data: {type: uri_file, path: ./data.txt, mode: download}}\n",
    )
    found = victim("run", "job.yml", "--fold", "off", WORLDSIZE_TRUST_PROJECT="1")
    assert found.code == 0, found
    assert [line.split(": ")[1] for line in found.lines].count("digits") == 2
    assert "%s/worldsize-%d-1/runs/" % (disk, uid) in found.out
    own = os.stat(os.path.join(disk, "worldsize-%d-1" % uid))
    assert (own.st_uid, own.st_mode & 0o777) == (uid, 0o700)


@pytest.fixture
def anna(machine: Machine) -> Person:
    return machine.person(ANNA)


@pytest.fixture
def stranger(machine: Machine) -> Person:
    return machine.person(STRANGER)


def path_of(disk: str, more: str = "") -> str:
    return os.path.join(disk, "worldsize-%d%s" % (ANNA, more))


def test_all_processes_find_the_same(anna: Person, stranger: Person, disk: str) -> None:
    """Side by side, and also once the stranger has gone, as long as there is one that was made meanwhile."""
    for more in ("", "-1", "-2"):
        stranger.python(OCCUPY, path_of(disk, more), "directory")
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(anna.python(FIND, disk).strip())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [path_of(disk, "-3")] * 4
    os.rmdir(path_of(disk, "-1"))
    assert anna.python(FIND, disk).strip() == path_of(disk, "-3")


def test_all_names_taken(anna: Person, stranger: Person, disk: str) -> None:
    for more in ("", *("-%d" % number for number in range(1, 10))):
        stranger.python(OCCUPY, path_of(disk, more), "directory")
    with anna.start_python(FIND, disk) as process:
        said = process.communicate(timeout=60)[1].decode()
    assert "PermissionError" in said and "it belongs to" in said and repr(path_of(disk)) in said
    assert len(os.listdir(disk)) == 10


def test_an_own_one_that_others_can_write_to_is_refused(anna: Person, disk: str) -> None:
    """It is this user's to mend, and not to be hidden."""
    anna.python("import os, sys; os.mkdir(sys.argv[1]); os.chmod(sys.argv[1], 0o777)", path_of(disk))
    with anna.start_python(FIND, disk) as process:
        assert "every user may write to it" in process.communicate(timeout=60)[1].decode()
    assert os.listdir(disk) == [os.path.basename(path_of(disk))]
