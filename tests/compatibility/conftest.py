"""A command line with a home of its own for each test, after which no process may be left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(str(tmp_path))
    yield cli
    cli.close()
