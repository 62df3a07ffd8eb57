"""Each signature knows its lines, and no line that only has its words."""

from __future__ import annotations

import pytest
from unit.diagnose.signature_example import Example
from unit.diagnose.signature_lines import EXAMPLES

from worldsize.diagnose.signatures import SIGNATURES
from worldsize.diagnose.signatures.signature import Role, match_text

ADVICE = (
    "CUDA kernel errors might be asynchronously reported: an illegal memory access was encountered",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1: device-side assert triggered",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions: device-side assert",
    "this might be caused by insufficient shared memory: No space left on device",
    "Please check that the disk is not full (No space left on device)",
)


def found(line: str, raised: bool) -> str | None:
    match = match_text(line, SIGNATURES, raised)
    return match and match.signature.id


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: "%s: %.40s" % (example.id, example.line))
def test_the_line_is_known_and_the_near_miss_is_not(example: Example) -> None:
    assert found(example.line, example.raised) == example.id
    assert found(example.near_miss, example.raised) is None


def test_every_signature_has_an_example() -> None:
    assert {row.id for row in SIGNATURES} == {example.id for example in EXAMPLES}


@pytest.mark.parametrize("line", ADVICE)
def test_advice_is_no_evidence(line: str) -> None:
    assert found(line, raised=False) is None


def test_each_row_is_complete() -> None:
    for row in SIGNATURES:
        assert row.id and row.meaning and row.hint and row.source, row
        assert row.role in (Role.ROOT, Role.CASCADE, Role.CONFIRMATION), row
