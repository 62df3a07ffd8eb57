"""Users of one machine that wish each other ill. Only root can start processes of other users."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driver import Cli
from security.people import ANNA, BEN, STRANGER, Machine, Person


@pytest.fixture(scope="session")
def machine() -> Iterator[Machine]:
    if os.geteuid() != 0:
        pytest.skip("only root can start processes of several users: sudo make test PART=security")
    machine = Machine()
    yield machine
    machine.close()


@pytest.fixture(params=["root", "anna"])
def victim(request: pytest.FixtureRequest, machine: Machine, tmp_path: Path) -> Iterator[Cli]:
    """Whoever is attacked: root, and an ordinary user."""
    cli = Cli(str(tmp_path)) if request.param == "root" else machine.person(ANNA)
    del cli.environ["WORLDSIZE_TRUST_PROJECT"]
    yield cli
    cli.close()


@pytest.fixture
def attacker(victim: Cli, machine: Machine) -> Iterator[Person]:
    """Nobody against root, and one ordinary user against another."""
    person = machine.person(BEN if isinstance(victim, Person) else STRANGER)
    yield person
    person.close()


@pytest.fixture
def uid(victim: Cli) -> int:
    return victim.uid if isinstance(victim, Person) else os.geteuid()


Visible = Callable[[str], None]


@pytest.fixture
def visible() -> Visible:
    """Let everybody read a directory with all that is in it."""

    def open_up(root: str) -> None:
        for directory, _, names in os.walk(root):
            os.chmod(directory, 0o755)
            for name in names:
                path = os.path.join(directory, name)
                if not os.path.islink(path):
                    os.chmod(path, os.stat(path).st_mode | 0o044)

    return open_up
