"""Relative links lead to files that exist, and their anchors to headings that exist. Each page is short, and two clicks
from the first one."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from documents import DOCS, PAGES, is_named_alone, place_of, prose

MOST_LINES = 250
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


@pytest.mark.parametrize("page", PAGES, ids=place_of)
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
    pages = {page for page in PAGES if page.is_relative_to(DOCS)}
    one = linked_pages(DOCS / "index.md")
    two = one.union(*(linked_pages(page) for page in one & pages if page.name == "index.md"))
    assert pages - {DOCS / "index.md"} - two == set()


def linked_pages(page: Path) -> set[Path]:
    return {(page.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(prose(page))}


def test_no_two_pages_have_one_name() -> None:
    """Tests find them by it."""
    counts = Counter(page.name for page in PAGES if is_named_alone(page))
    assert [name for name, count in counts.items() if count > 1] == []


def test_no_page_is_long() -> None:
    lengths = {place_of(page): len(page.read_text(encoding="utf-8").splitlines()) for page in PAGES}
    assert {place: length for place, length in lengths.items() if length > MOST_LINES and place != "CHANGELOG.md"} == {}
