"""docs/reference/variables.md holds the table of variables that the code has."""

from __future__ import annotations

import runpy

from documents import ROOT

from worldsize.plan.rank_variables import CONVENTIONS, VARIABLES

_PAGE = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_code() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "document_environment.py"))
    between = _PAGE.partition(script["BEGIN"])[2].partition(script["END"])[0]
    assert between == "\n%s\n" % script["tables"](), "run: python scripts/document_environment.py"


def test_every_variable_has_its_row() -> None:
    for variable in VARIABLES:
        assert "| `%s` | %s |" % (variable.name, variable.meaning) in _PAGE
    for convention in CONVENTIONS:
        assert "### `%s`" % convention in _PAGE
    page = (ROOT / "docs" / "job-file.md").read_text(encoding="utf-8")
    assert "| `conventions` | a list of %s |" % ", ".join("`%s`" % each for each in CONVENTIONS) in page
