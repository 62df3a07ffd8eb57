"""Relative links lead to files that exist, and their anchors to headings that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documents import PAGES, prose

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, no punctuation, blanks as hyphens."""
    found: set[str] = set()
    for heading in _HEADING.findall(prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        base = name = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = 0
        while name in found:
            number += 1
            name = "%s-%d" % (base, number)
        found.add(name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(prose(page)):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_is_reached_from_the_index() -> None:
    docs = [page for page in PAGES if page.parent.name == "docs"]
    index = next(page for page in docs if page.name == "index.md")
    linked = {link.partition("#")[0] for link in _LINK.findall(prose(index))}
    assert {page.name for page in docs} - {"index.md"} <= linked
