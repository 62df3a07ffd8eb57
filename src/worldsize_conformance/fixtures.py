"""The fixtures for each test of the suite: a project, and a home directory for its runs, on the compute of the fixture
`target`.

A project's conftest.py imports `place` from here, and defines the fixture `target`. Import it before any test of the
suite: only then does pytest explain the suite's assertions.
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
    """Yield the Place for a test: a new project and home directory, with the command line, on the compute `target`.
    Fail if a process of its runs is left at the end."""
    root = tempfile.mkdtemp(dir=target.directory) if target.directory else str(tmp_path)
    yield from make_place(root, target)


def make_place(root: str, target: Target, end: Callable[[Place], None] = lambda place: None) -> Iterator[Place]:
    """Create a Place for a test, with its project in the directory `root`, and yield it, once. Afterwards call `end`
    with it, and then check that no process is left."""
    place = Place(root, target)
    yield place
    try:
        end(place)
    finally:
        place.close()
