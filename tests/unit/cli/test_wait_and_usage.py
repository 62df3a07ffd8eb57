"""Why a run waits and what it used, in words and as data."""

from __future__ import annotations

import pytest

from worldsize.cli.runs.wait_and_usage import usage_text, waiting_data, waiting_lines
from worldsize.compute.capabilities import Change, Usage, WaitExplanation


@pytest.mark.parametrize(
    ("usage", "text"),
    [
        (None, ""),
        (Usage(2, 0, 8, 0.0, 0.0, None), ""),
        (Usage(2, 180, 8, 0.4, 1.6, 0.87), "0.4 GPU-hours, CPU 87 % busy"),
        (Usage(2, 3, 8, 0.0067, 0.01, None), "0.4 GPU-minutes"),
        (Usage(2, 3600, None, None, 250.4, 0.5), "250 CPU-hours, CPU 50 % busy"),
        (Usage(2, 3600, None, None, None, None), ""),
    ],
)
def test_what_a_run_used_in_words(usage: Usage | None, text: str) -> None:
    assert usage_text(usage) == text


def test_why_a_run_waits_in_words_and_as_data() -> None:
    change = Change({"slurm.partition": "short"}, "slurm.partition short: at once", 5.0, 60.0)
    waiting = WaitExplanation("Resources", "waits for free nodes", 100.0, False, (change,))
    assert waiting_lines(waiting) == [
        "waits for free nodes",
        "it would start sooner with",
        "  slurm.partition short: at once",
    ]
    assert waiting_data(waiting) == {
        "reason": "Resources",
        "words": "waits for free nodes",
        "expected": 100.0,
        "stuck": False,
        "sooner": [change._asdict()],
    }
    assert waiting_lines(WaitExplanation("JobHeldUser", "is held")) == ["is held"] and waiting_data(None) is None
