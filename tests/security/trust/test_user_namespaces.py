"""Where a process's user namespace maps its own user alone, root and everybody else look the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from security.people import ANNA, BEN, Machine, Person


@pytest.fixture
def inside(machine: Machine) -> Iterator[Person]:
    """As containers of unprivileged users are."""
    person = machine.person(ANNA)
    del person.environ["WORLDSIZE_TRUST_PROJECT"]
    person.prefix = ("unshare", "--user", "--map-current-user", "--")
    assert person.python("import os; print(os.getuid(), os.stat('/').st_uid)") == "%d 65534\n" % ANNA
    yield person
    person.close()


@pytest.fixture
def other(machine: Machine) -> Iterator[Person]:
    person = machine.person(BEN)
    yield person
    person.close()


def test_ones_own_home_is_at_hand(inside: Person) -> None:
    inside.environ["WORLDSIZE_HOME"] = os.path.join(inside.root, "home")
    (directory,) = {os.path.dirname(inside.root)}
    refused = inside("run", "-q", "--", "true")
    assert refused.code == 1 and directory in refused.err and "unknown in this user namespace" in refused.err
    inside.ok("config", "trust", directory)
    inside.run("-q", "--", "true")


def test_anothers_file_does_not_count(inside: Person, other: Person, machine: Machine) -> None:
    """Found by review: its owner is then that of /, who was taken for root."""
    mark = Path(machine.directory(0o777), "mark")
    other.write("worldsize.toml", '[compute.local]\nsetup = ["id -u > %s"]\n' % mark)
    inside.ok("config", "trust", os.path.dirname(inside.root))
    told = inside("run", "-q", "--", "true", cwd=other.project)
    assert not mark.exists() and "is ignored" in told.err and "unknown in this user namespace" in told.err


def test_a_link_in_the_root_directory_is_nobodys_to_trust(inside: Person) -> None:
    """On the way to a directory it counts as root's. A decision about a file asks that it is known to be root's."""
    assert os.path.islink("/bin"), "as all of today's systems have it"
    refused = inside("config", "trust", "/bin/env")
    assert refused.code == 2 and "a link of another user leads to /usr/bin/env" in refused.err
    inside.ok("config", "trust", "/usr/bin/env")
    script = """
import os
from worldsize.trust.decisions import decision_about_file
with open("/usr/bin/env", "rb") as file:
    data = file.read()
print(decision_about_file("/usr/bin/env", data, os.environ), decision_about_file("/bin/env", data, os.environ))
"""
    assert inside.python(script) == "True None\n"


def test_anothers_directories_are_refused(inside: Person, other: Person) -> None:
    inside.ok("config", "trust", os.path.dirname(inside.root))
    script = """
import sys
from worldsize.errors import StorageError
from worldsize.trust.directories import foreign_owner, is_reliable_directory
print(is_reliable_directory(sys.argv[1]), foreign_owner(sys.argv[1]) is None, is_reliable_directory(sys.argv[2]))
"""
    assert inside.python(script, other.project, inside.project) == "False False True\n"
