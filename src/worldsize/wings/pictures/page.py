"""HTML pages in one file, without a server, scripts or external content. Text from a run cannot become any of these."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from worldsize.wings.pictures.markup import Child as Child
from worldsize.wings.pictures.markup import Element as Element
from worldsize.wings.pictures.markup import element as element
from worldsize.wings.pictures.rendering import render
from worldsize.wings.pictures.style import STYLE

_NUMBER = re.compile(r"[-+−]?[\d.,]+(e[-+]?\d+)?( ?[%µA-Za-z/]{1,5})?|-?nan|[-+−]?inf")
_FEW_SECTIONS = 2
"""The most sections of a page without a table of contents."""


def make_page(title: str, *children: Child) -> bytes:
    """Return a whole HTML page as bytes in UTF-8, with worldsize's styles: a heading, a table of contents of the
    sections among the children, and the children. A browser that shows the page loads nothing and runs nothing
    (Content-Security-Policy)."""
    body = render(element("main", element("h1", title), *_contents(children), *children))
    return _HEAD.format(policy=_policy(), title=render(title), style=STYLE, body=body).encode()


def section(id: str, title: str, *children: Child) -> Element:
    """Return a section of an HTML page with a heading and `children`, that can be linked to (`#id`, a word from the
    code). A section within another one has a lower level."""
    return element(
        "section", element("h2", title, id=id + "-heading"), *children, id=id, aria_labelledby=id + "-heading"
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[Child]], caption: str = "") -> Element:
    """Return an HTML table. The first cell of each row is the row's header. Numbers are aligned to the right, and a
    wide table scrolls."""
    head = element("tr", *(element("th", header, scope="col") for header in headers))
    titles = [element("caption", caption)] if caption else []
    body = element("tbody", *map(_row, rows))
    inner = element("table", *titles, element("thead", head), body)
    return scrolling(inner, caption or "table")


def scrolling(child: Child, name: str) -> Element:
    """Return an element of an HTML page in which `child` scrolls sideways, also by keyboard, if the screen is narrower.
    `name` is the label for screen readers."""
    return element("div", child, class_="scroll", tabindex="0", role="group", aria_label=name)


def key_values(pairs: Iterable[tuple[str, Child]]) -> Element:
    """Return an HTML description list (`dl`) of names, each with its value."""
    return element("dl", *(part for name, value in pairs for part in (element("dt", name), element("dd", value))))


def details(summary: Child, *children: Child, open: bool = False) -> Element:
    """Return an HTML element whose children are hidden behind its summary until the reader opens it, or shown from the
    start if `open`."""
    folded = element("details", element("summary", summary), *children)
    return folded._replace(attributes={"open": ""}) if open else folded


def _row(cells: Sequence[Child]) -> Element:
    first, *more = cells or ("",)
    return element("tr", element("th", first, scope="row"), *map(_cell, more))


def _cell(value: Child) -> Element:
    if isinstance(value, str) and len(value) <= 40 and _NUMBER.fullmatch(value):
        return element("td", value, class_="number")
    return element("td", value)


def _contents(children: tuple[Child, ...]) -> list[Element]:
    sections = [child for child in children if isinstance(child, Element) and child.tag == "section"]
    if len(sections) <= _FEW_SECTIONS:
        return []
    links = [element("li", element("a", *_title(each), href="#" + each.attributes["id"])) for each in sections]
    return [element("nav", element("ul", *links), aria_label="contents")]


def _title(part: Element) -> tuple[Child, ...]:
    heading = part.children[0]
    return heading.children if isinstance(heading, Element) else (heading,)


_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="worldsize">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
{body}
</body>
</html>
"""


def _policy() -> str:
    """Return the content security policy of a page, which permits only worldsize's style sheet, and pictures embedded
    in the page."""
    from base64 import b64encode
    from hashlib import sha256

    digest = b64encode(sha256(STYLE.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
