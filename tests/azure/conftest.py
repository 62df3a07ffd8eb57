"""Azure's own client as tests run it. This folder is no package, since `azure` is Azure's own name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from azureml_double.double import Double
from sdk import Told, run_script


@pytest.fixture
def sdk(double: Double, tmp_path: Path) -> Callable[[str], Told]:
    """Runs a script with Azure's own client: see `sdk_client.py`. Its `folder` is `tmp_path / "results"`."""
    return lambda script: run_script(double, script, tmp_path / "results")
