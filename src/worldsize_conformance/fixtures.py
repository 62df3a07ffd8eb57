"""What each test of the suite gets: a project, and a home for its runs, on the compute that a fixture `target` tells.

A conftest.py of yours imports `place` from here, and has that fixture. Import it before any test of the suite, whose
assertions pytest explains then.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_SUITE = ("commands_on_nodes", "lifecycle", "ranks", "requeue", "search", "several", "umask", "warnings")
pytest.register_assert_rewrite(*("worldsize_conformance." + name for name in _SUITE))

from worldsize_conformance.place import Place, Target  # noqa: E402


@pytest.fixture
def place(target: Target, tmp_path: Path) -> Iterator[Place]:
    """Fails where a process of its runs is left in the end."""
    root = tempfile.mkdtemp(dir=target.directory) if target.directory else str(tmp_path)
    yield from make_place(root, target)


def make_place(root: str, target: Target, end: Callable[[Place], None] = lambda place: None) -> Iterator[Place]:
    """Yield the place in `root`, once. Afterwards `end` is called, and then no process may be left."""
    place = Place(root, target)
    yield place
    try:
        end(place)
    finally:
        place.close()
