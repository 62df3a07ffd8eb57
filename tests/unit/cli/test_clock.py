"""Times of records, which may hold anything, as they are shown."""

from __future__ import annotations

import re

import pytest

from worldsize.cli.clock import clock_text


@pytest.mark.parametrize("moment", [None, 1e300, -1e17, float("inf"), float("nan")])
def test_what_is_no_time_is_shown_as_none(moment: float | None) -> None:
    assert clock_text(moment) == "--:--:--.---"


def test_a_time_is_shown_to_a_millisecond() -> None:
    assert re.fullmatch(r"\d\d:\d\d:\d\d\.250", clock_text(1e9 + 0.25))
    assert clock_text(1e9 + 0.9996).endswith(":40.999"), "not the second after it, nor .000 of this one"
