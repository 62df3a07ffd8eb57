"""The conformance suite of worldsize on the toy scheduler: the suite asks for this fixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize_conformance.fixtures import place as place
from worldsize_conformance.place import Target


@pytest.fixture
def target(tmp_path: Path) -> Target:
    """Each seventh request gets no answer, and a job is forgotten two seconds after its end."""
    environ = {"TOY_SPOOL": str(tmp_path / "spool"), "TOY_TROUBLE": "7", "TOY_KEEP": "2"}
    return Target(
        "toy",
        '[compute.toy]\ntype = "toy"\n',
        patience=40,
        environ=environ,
        inherits=False,
        unknown={"job": 99999999},
    )
