"""Marks in a plan's text become a node's own paths, whatever these hold."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from worldsize.plan.hosted_places import RUNS_MARK, place_mark, with_places


@given(st.text(), st.text(), st.text())
def test_marks_become_places(runs: str, data: str, rest: str) -> None:
    value = {"argv": [rest, "x=%s/y" % place_mark("inputs", "data")], "root": RUNS_MARK + "/id"}
    places = {"inputs.data": data, "outputs.data": "elsewhere"}
    found = json.loads(with_places(json.dumps(value), runs, places))
    if "@" not in runs + data + rest:
        assert found == {"argv": [rest, "x=%s/y" % data], "root": runs + "/id"}


def test_what_is_not_placed_stays() -> None:
    text = json.dumps([place_mark("inputs", "a"), place_mark("inputs", "ab")])
    assert json.loads(with_places(text, "/r", {"inputs.a": "/a"})) == ["/a", place_mark("inputs", "ab")]
