"""Each test runs once on every compute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from targets import TARGETS, Place


@pytest.fixture(params=TARGETS, ids=lambda target: target.name)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(str(tmp_path))
    place.target = request.param
    place.write("worldsize.toml", 'default_compute = "%s"\n%s' % (place.target.name, place.target.config))
    yield place
    place.close()
