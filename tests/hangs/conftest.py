"""Fixtures of the tests of runs that hang."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Cli
from slurm.cluster import Cluster
from slurm.login import Login, login_of


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(str(tmp_path))
    yield cli
    cli.close()


@pytest.fixture
def login(slurm: Cluster) -> Iterator[Login]:
    with login_of(slurm) as login:
        yield login
