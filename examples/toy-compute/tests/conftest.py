"""The conformance suite of worldsize on the toy: the suite asks for this fixture."""

from __future__ import annotations

import pytest

from worldsize_conformance.fixtures import place as place
from worldsize_conformance.place import Target


@pytest.fixture
def target() -> Target:
    return Target("toy", '[compute.toy]\ntype = "toy"\n', patience=40, unknown={"job": 99999999})
