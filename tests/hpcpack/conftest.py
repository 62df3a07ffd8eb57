"""The client of the simulated cluster that the tests of a worker share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hpcpack.life import Client
from hpcpack.simulator import Simulator


@pytest.fixture
def client(hpcpack: Simulator) -> Iterator[Client]:
    made = Client(hpcpack)
    yield made
    made.close()
