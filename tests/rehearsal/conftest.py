"""Rehearsals through the real command line; nothing may be left of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Cli

SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(str(tmp_path))
    for script in SCRIPTS.iterdir():
        if script.suffix == ".py":
            cli.write(script.name, script.read_text())
    yield cli
    cli.close()
