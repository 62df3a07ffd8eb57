"""A project with the training scripts."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Cli
from trainings import Trainings


@pytest.fixture
def trainings(tmp_path: Path) -> Iterator[Trainings]:
    cli = Cli(str(tmp_path))
    cli.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + cli.environ["PATH"]
    yield Trainings(cli)
    cli.close()
