"""Why a world has failed, in a sentence that stands in its result."""

from __future__ import annotations

from typing import Any

import pytest

from worldsize.state.records import Failure, RunState, Status
from worldsize.wings.bench.world_run import failure_sentence

EXITED = "rank 0 on node 0 (n1) exited with code 1"


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, EXITED),
        ({"code": 1, "exception": None, "last_lines": []}, EXITED),
        (
            {"code": 1, "exception": None, "last_lines": ["loaded", "\x1b[31mno   image in it\x1b[0m", " "]},
            EXITED + "; last line: no image in it",
        ),
        ({"code": 1, "exception": {"type": "OSError"}, "last_lines": ["OSError"]}, EXITED),
        ({"code": 137, "exception": None, "last_lines": ["loss 0.5"]}, EXITED),
        ({"code": 1, "exception": None, "last_lines": ["x" * 999]}, (EXITED + "; last line: " + "x" * 999)[:300]),
    ],
)
def test_the_sentence(data: dict[str, Any], said: str) -> None:
    status = Status(RunState.FAILED, failure=Failure("RANK", EXITED))
    assert failure_sentence(status, data) == said
