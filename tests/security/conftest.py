"""Users of one machine that wish each other ill. Only root can start processes of other users."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from driver import Cli
from security.people import ANNA, BEN, STRANGER, Machine, Person

FOLDER = Path(__file__).parent


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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of the cases with the one and the other victim, `make test` has one: every other test and case attacks root."""
    for item in items:
        if isinstance(item, pytest.Function) and item.path.is_relative_to(FOLDER) and not _is_attacked_here(item):
            item.add_marker("exhaustive")


def _is_attacked_here(item: pytest.Function) -> bool:
    """By the test's name and its other parameters alone, so that it is the same whatever else is collected; a test
    that is marked itself says which cases it has."""
    indices = dict(item.callspec.indices) if hasattr(item, "callspec") else {}
    which = indices.pop("victim", None)
    if which is None or item.get_closest_marker("exhaustive"):
        return True
    return which == (zlib.crc32(item.function.__name__.encode()) + sum(indices.values())) % 2
