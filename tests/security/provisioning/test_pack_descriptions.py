"""What lies beside a packed environment says what it is: only where nobody else could have written it."""

from __future__ import annotations

import hashlib
import json
import os

import pytest
from security.people import ANNA, BEN, Machine

from worldsize.wings.provisioning.packed_environments import describe_pack

CONTENT = b"as good as a packed environment"
TRUE = hashlib.sha256(CONTENT).hexdigest()
CLAIMED = "ab" * 32


def a_pack(directory: str, uid: int = 0) -> str:
    path = os.path.join(directory, "env.tar.gz")
    with open(path, "wb") as file:
        file.write(CONTENT)
    os.chown(path, uid, uid)
    return path


def noted(pack: str, digest: object = CLAIMED) -> str:
    """A note that fits the file in all but its checksum."""
    status = os.stat(pack)
    value = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "digest": digest, "unpacked": 1, "files": 1}
    with open(pack + ".json", "w") as file:
        json.dump(value, file)
    return pack + ".json"


def test_a_note_of_ones_own(machine: Machine) -> None:
    """It is believed: the pack is not read again."""
    pack = a_pack(machine.directory(0o1777))
    noted(pack)
    assert describe_pack(pack).digest == CLAIMED


def test_a_note_of_somebody_elses(machine: Machine) -> None:
    """Found by review: in a directory where everybody may make files, it decided what the nodes execute."""
    pack = a_pack(machine.directory(0o1777))
    os.chown(noted(pack), BEN, BEN)
    assert describe_pack(pack).digest == TRUE


@pytest.mark.parametrize(("mode", "gid"), [(0o666, 0), (0o664, BEN)])
def test_a_note_that_others_can_write_to(machine: Machine, mode: int, gid: int) -> None:
    """Found by review: nobody asked who else could have written it."""
    pack = a_pack(machine.directory(0o755))
    note = noted(pack)
    os.chown(note, 0, gid)
    os.chmod(note, mode)
    assert describe_pack(pack).digest == TRUE


def test_a_note_that_others_could_replace(machine: Machine) -> None:
    """Found by review: nobody asked who may write to its directory."""
    pack = a_pack(machine.directory(0o777))
    noted(pack)
    assert describe_pack(pack).digest == TRUE


def test_a_link_of_somebody_elses_in_the_place_of_a_note(machine: Machine) -> None:
    """Found by review: it led to a note of one's own, of another pack."""
    pack, elsewhere = a_pack(machine.directory(0o1777)), machine.directory(0o755)
    os.rename(noted(pack), elsewhere + "/note.json")
    os.symlink(elsewhere + "/note.json", pack + ".json")
    os.chown(pack + ".json", BEN, BEN, follow_symlinks=False)
    assert describe_pack(pack).digest == TRUE


@pytest.mark.parametrize("digest", ["../../evil", "../../evil".ljust(64, "a"), CLAIMED.upper(), CLAIMED[:-1], 7, None])
def test_a_note_without_a_checksum(machine: Machine, digest: object) -> None:
    """Found by review: the digest becomes a part of a path."""
    pack = a_pack(machine.directory(0o1777))
    noted(pack, digest)
    assert describe_pack(pack).digest == TRUE


def test_between_two_ordinary_users(machine: Machine) -> None:
    """Found by review: what one of them wrote beside the pack of the other was believed."""
    anna, ben = machine.person(ANNA), machine.person(BEN)
    shared = machine.directory(0o1777)
    script = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
    anna.python(script, shared + "/env.tar.gz", "of anna's")
    status = os.stat(shared + "/env.tar.gz")
    note = {"size": status.st_size, "mtime_ns": status.st_mtime_ns, "digest": "../../evil"}
    ben.python(script, shared + "/env.tar.gz.json", json.dumps(note))
    ask = "import sys; from worldsize.wings.provisioning.packed_environments import describe_pack"
    ask += "; print(describe_pack(sys.argv[1]).digest)"
    assert anna.python(ask, shared + "/env.tar.gz").strip() == hashlib.sha256(b"of anna's").hexdigest()
    for person in (anna, ben):
        person.close()
