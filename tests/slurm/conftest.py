"""The login node of the session's cluster, with a project and a home of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slurm.cluster import Cluster
from slurm.login import Login, login_of


@pytest.fixture
def login(slurm: Cluster) -> Iterator[Login]:
    with login_of(slurm) as login:
        yield login
