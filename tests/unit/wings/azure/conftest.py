"""Azure's own SDK, asked by the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from body_oracle import BodyOracle, sdk_python


@pytest.fixture(scope="module")
def oracle() -> Iterator[BodyOracle]:
    python = sdk_python()
    if python is None:
        pytest.skip("no interpreter with azure-ai-ml: install requirements/azure.txt into .venv-azure")
    found = BodyOracle(python)
    yield found
    found.close()
