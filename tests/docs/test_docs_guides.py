"""docs/how-to/guides.md: the tests that it names exist, each row has its word and proof, and they are counted."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from documents import ROOT

_TESTS = ROOT / "tests"
_SOURCE = ROOT / "src"
_LINES = (ROOT / "docs" / "how-to" / "guides.md").read_text(encoding="utf-8").splitlines()
_CELLS = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in _LINES if line.startswith("| ")]
_COUNTED = {cells[0].strip("*"): int(cells[1]) for cells in _CELLS if len(cells) == 3 and cells[1].isdigit()}
_ROWS = [cells for cells in _CELLS if len(cells) != 3 and cells[0] not in ("the guide", "---")]
_CITED = sorted({name for row in _ROWS for name in re.findall(r"`([\w/]+\.py::\w+)`", row[2])})


def test_the_counts_at_the_top_are_those_of_the_rows() -> None:
    assert list(_COUNTED) == ["real", "virtual", "simulated", "read", "missing", "all"]
    counts = Counter(row[3] for row in _ROWS)
    assert {**{word: counts[word] for word in _COUNTED}, "all": len(_ROWS)} == _COUNTED
    assert len(_ROWS) > 80


@pytest.mark.parametrize("name", _CITED)
def test_a_cited_test_exists(name: str) -> None:
    file, _, function = name.partition("::")
    text = (_TESTS / file).read_text(encoding="utf-8")
    for module in re.findall(r"^from (worldsize_conformance\.\w+) import \*", text, re.MULTILINE):
        text += (_SOURCE / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8")
    assert re.search(r"^def %s\(" % function, text, re.MULTILINE)


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row[0][:30])
def test_a_row_has_one_word_and_a_test_or_the_reason_why_it_is_missing(row: list[str]) -> None:
    _, here, tests, how, remark = row
    assert how in _COUNTED and how != "all"
    if how == "missing":
        assert remark, "its reason"
    else:
        assert here and re.fullmatch(r"`[\w/]+\.py::\w+`(, `[\w/]+\.py::\w+`)*", tests)
