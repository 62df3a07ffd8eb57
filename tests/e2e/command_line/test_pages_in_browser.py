"""A real browser shows pages: it asks for nothing, runs nothing, and shows hostile text as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import Browser, Shown, run_browser

from worldsize.wings.pictures.markup import visible_text
from worldsize.wings.pictures.provider import (
    Chart,
    Line,
    Span,
    TimelineRow,
    details,
    draw_chart,
    draw_timeline,
    element,
    key_values,
    make_page,
    section,
    table,
)

HOSTILE = [
    "<script>document.title = 'taken'; alert(1)</script>",
    "<img src=https://example.org/a.png onerror=alert(2)>",
    "</style></title></pre></textarea><!-- --><svg onload=alert(3)><a href=javascript:alert(4)>",
    "<link rel=stylesheet href=https://example.org/b.css><meta http-equiv=refresh content=0;url=https://example.org>",
    "<iframe src=/etc/passwd></iframe><base href=https://example.org/>&lt;b&gt; \x1b[31m \u202e \udc80 $\\frac{1}{2}$",
]
BACKGROUND = "getComputedStyle(document.body).backgroundColor"
COLOUR_OF_TEXT = "getComputedStyle(document.querySelector('svg text')).fill"
LOUD = b"""<title>loud</title><body>text<script>console.log("said"); alert("asked")</script>
<img src="http://127.0.0.1:9/x.png"></body>"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with run_browser(tmp_path_factory.mktemp("browser")) as running:
        yield running


def hostile_page(text: str) -> bytes:
    points = (1.0, 2.0, 3.0)
    chart = Chart(text, text, text, (Line(text, points, points), Line("b", points, (3, 2, 1))))
    row = TimelineRow(text, (Span(text, 0, 5, text), Span("b", 5, 9)))
    link = element("a", text, href=text, title=text, class_=text, id=text)
    return make_page(
        text, key_values([(text, text)]), draw_chart(chart), draw_timeline(text, [row]),
        section("one", text, table([text, text], [[text, text]], text), link),
        section("two", "Two", details(text, element("pre", text), open=True)),
        section("three", "Three", details("folded", "not to be seen")),
    )  # fmt: skip


def shown(browser: Browser, directory: Path, page: bytes, dark: bool = False) -> Shown:
    path = directory / "page.html"
    path.write_bytes(page)
    return browser.open_page(path, dark=dark, ask=(BACKGROUND, COLOUR_OF_TEXT))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_and_nothing_else_happens(browser: Browser, tmp_path: Path, text: str) -> None:
    page = shown(browser, tmp_path, hostile_page(text))
    assert (page.requests, page.messages) == ([], [])
    assert page.title == " ".join(visible_text(text).split())
    assert page.text.count(visible_text(text)) >= 8
    assert "folded" in page.text and "not to be seen" not in page.text


def test_dark_pages_are_dark_and_their_pictures_light(browser: Browser, tmp_path: Path) -> None:
    page = hostile_page("text")
    light, dark = (shown(browser, tmp_path, page, dark) for dark in (False, True))
    assert light.answers == ["rgb(255, 255, 255)", "rgb(27, 31, 36)"]
    assert dark.answers == ["rgb(20, 23, 26)", "rgb(228, 231, 234)"]
    assert light.picture.startswith(b"\x89PNG") and light.picture != dark.picture


def test_a_narrow_screen_scrolls_the_table_and_not_the_page(browser: Browser, tmp_path: Path) -> None:
    cells = ["cell%d" % number for number in range(60)]
    path = tmp_path / "page.html"
    path.write_bytes(make_page("t", table(cells, [cells]), draw_timeline("t", [TimelineRow("n", (Span("a", 0, 1),))])))
    table_scrolls = "(e => e.scrollWidth > e.clientWidth)(document.querySelector('.scroll'))"
    page = browser.open_page(path, width=400, ask=(table_scrolls,))
    assert (page.width <= 400, page.answers) == (True, [True])


def test_the_browser_tells_what_a_page_does(browser: Browser, tmp_path: Path) -> None:
    """Of a page that is not one of worldsize's: else the tests above would prove nothing."""
    page = shown(browser, tmp_path, LOUD)
    assert (page.title, page.text.strip()) == ("loud", "text")
    assert page.requests == ["http://127.0.0.1:9/x.png"]
    assert {"said", "dialog: asked"} <= set(page.messages)
    policy = b"<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"
    page = shown(browser, tmp_path, policy + LOUD)
    assert page.requests == [] and "Content Security Policy" in "".join(page.messages)
    assert not {"said", "dialog: asked"} & set(page.messages)
