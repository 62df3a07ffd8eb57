"""Fixtures of the tests of warm starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Cli

from warm_start.starts import Starts


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(str(tmp_path))
    yield cli
    cli.close()


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starts]:
    starts = Starts(tmp_path_factory.mktemp("starts"))
    yield starts
    starts.close()
