"""The blocks of pages that are made from the code, by their kinds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from scripts.documentation.exit_codes import error_rows
from scripts.documentation.json_output import schema_sections
from scripts.documentation.keys import configuration_rows, job_rows
from scripts.documentation.options import option_tables, verb_rows
from scripts.documentation.variables import variable_rows

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
_BLOCK = re.compile(r"^<!-- from the code: (?P<kind>[a-z]+) ?(?P<words>[^\n]*?) -->\n.*?^<!-- end -->$", re.M | re.S)

KINDS: Mapping[str, Callable[[str], str]] = {
    "options": option_tables,
    "verbs": verb_rows,
    "job": job_rows,
    "configuration": configuration_rows,
    "variables": variable_rows,
    "errors": error_rows,
    "json": schema_sections,
}
"""Functions that make a block, by its kind: of the words that follow the kind."""


def with_current_blocks(text: str) -> str:
    """Return the page's text with its blocks as the code has them. Raise KeyError for an unknown kind."""
    return _BLOCK.sub(_current_block, text)


def _current_block(block: re.Match[str]) -> str:
    head = block[0].partition("\n")[0]
    return "%s\n\n%s\n\n<!-- end -->" % (head, KINDS[block["kind"]](block["words"]).strip())
