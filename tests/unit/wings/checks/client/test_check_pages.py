"""The pages of the documentation name each row of a check, and none that there is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from worldsize.wings.checks.agent.node_checks import NODE_CHECKS
from worldsize.wings.checks.agent.stage_table import STAGES
from worldsize.wings.checks.selection import all_ids
from worldsize.wings.environments.inspect import report_rows
from worldsize.wings.hpcpack import check_rows, cluster_check

DOCS = Path(__file__).resolve().parents[5] / "docs" / "how-to"
WHOLE_ONLY = {id for check in (*NODE_CHECKS, *STAGES) if not check.cheap for id in check.ids}


def table(page: str) -> list[str]:
    """The ids in the first cells of the page's table of rows."""
    text = (DOCS / page).read_text(encoding="utf-8").partition("\n| row | what |\n")[2].partition("\n\n")[0]
    return re.findall(r"`([^`]+)`", "".join(re.findall(r"^\| (.+?) \|", text, re.MULTILINE)))


def constants(module: object, beginning: str) -> set[str]:
    return {value for value in vars(module).values() if isinstance(value, str) and value.startswith(beginning)}


@pytest.mark.parametrize(
    ("page", "ids"),
    [
        ("runs/check.md", set(all_ids())),
        ("clusters/hpcpack-cluster.md", constants(check_rows, "hpcpack.") | constants(cluster_check, "hpcpack.")),
        ("clusters/offline.md", constants(report_rows, "env.")),
    ],
)
def test_the_table_has_each_row_once(page: str, ids: set[str]) -> None:
    assert sorted(table(page)) == sorted(ids)


def test_the_page_says_what_the_cheap_form_leaves_out() -> None:
    text = (
        (DOCS / "runs" / "check.md")
        .read_text(encoding="utf-8")
        .partition("The cheap form leaves out")[2]
        .partition(".\n")[0]
    )
    assert set(re.findall(r"`([^`]+)`", text)) == WHOLE_ONLY
