"""Virtual GPUs answer as the table says that real ones do (scripts/compare_virtual_gpu.py asks those)."""

from __future__ import annotations

from pathlib import Path

import answers
import pytest
from ranks import said_by_a_rank

pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)


@pytest.mark.exhaustive
def test_virtual_gpus_answer_as_real_ones_do(tmp_path: Path) -> None:
    found = said_by_a_rank(tmp_path, answers.__file__)
    assert found.keys() == answers.CASES.keys()
    expected = {name: case[1] for name, case in answers.CASES.items()}
    assert {
        name: (found[name], expected[name]) for name in found if not answers.agrees(found[name], expected[name])
    } == {}
