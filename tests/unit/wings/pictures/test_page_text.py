"""Text, wherever it stands in a page, is the text that a parser reads there, and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsed_pages import Parsed

from worldsize.wings.pictures.markup import element, visible_text
from worldsize.wings.pictures.page import details, key_values, make_page, section, table
from worldsize.wings.pictures.rendering import render

HOSTILE = "<script>alert(1)</script><!-- --></style></title>&lt;&#0;\x00\x1b[31m\u202e\udc80\r\n\t\"'`]]>"
TEXTS = st.one_of(
    st.text(st.characters(codec=None)),
    st.text(st.sampled_from("<>&;\"'=/!-[]#x0aA \n\r\t\x00\x1b\x85\u202e\ud800script"), max_size=40),
)


@given(TEXTS)
def test_text_and_attributes_are_read_as_they_were_given(text: str) -> None:
    parsed = Parsed(render(element("p", text, title=text, class_=text)))
    assert parsed.tags == ["p"]
    assert parsed.text_of("p") == visible_text(text)
    assert parsed.attributes == [{"title": visible_text(text), "class": visible_text(text)}]
    assert parsed.comments == []


@given(TEXTS.filter(bool))
def test_no_text_changes_what_a_page_is_made_of(text: str) -> None:
    def page(text: str) -> Parsed:
        parts = [section("s%d" % number, text, details(text, element("pre", text))) for number in range(3)]
        rows = [[text, text], [text, element("b", text)]]
        return Parsed(make_page(text, key_values([(text, text)]), table([text, text], rows, text), *parts))

    parsed = page(text)
    assert parsed.tags == page("x").tags
    for tag in ("title", "h1", "caption", "b", "dt", "dd"):
        assert parsed.text_of(tag) == visible_text(text)
    assert parsed.text_of("summary") == visible_text(text) * 3


@given(TEXTS)
def test_nothing_hidden_is_left(text: str) -> None:
    shown = visible_text(text)
    shown.encode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", shown)
    assert visible_text("a\nb\tc é 日本語 🙂") == "a\nb\tc é 日本語 🙂"


def test_what_is_hidden_is_shown_as_python_writes_it() -> None:
    assert visible_text("\x00\x1b[31m\r\u202e\udc80") == "\\x00\\x1b[31m\\r\\u202e\\udc80"


@pytest.mark.parametrize("text", ["", "\n", "\n\nx", "x\n"])
def test_the_first_newline_of_preformatted_text_stays(text: str) -> None:
    assert render(element("pre", text)) == "<pre>\n%s</pre>" % text


@pytest.mark.parametrize(
    "tag",
    ["script", "style", "iframe", "object", "form", "input", "base", "link", "meta", "foreignObject", "p x"],
)
def test_code_cannot_make_an_element_that_runs_or_loads(tag: str) -> None:
    with pytest.raises(ValueError, match="not an element of a page"):
        render(element(tag))


@pytest.mark.parametrize("name", ["onclick", "style", "srcset", "action", "x onload", "href=1>", "formaction", "data"])
def test_code_cannot_give_an_attribute_that_runs_or_loads(name: str) -> None:
    with pytest.raises(ValueError, match="is not an attribute"):
        render(element("p", **{name: "x"}))


@pytest.mark.parametrize(
    "link", ["#ranks", "https://example.org/?a=1&b=2#c", "http://x", "rank.log", "logs/rank-1.log", "../a:b"]
)
def test_links_lead_to_pages_and_files(link: str) -> None:
    assert Parsed(render(element("a", "x", href=link))).attributes == [{"href": link}]


@pytest.mark.parametrize(
    "link",
    ["javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:x", "java\nscript:x", "\x01javascript:x", "vbscript:x",
     "file:///etc/passwd", "//example.org/x", "\\\\server\\share", "/\\example.org", "https://x y", "", "data:,x"],
)  # fmt: skip
def test_other_links_are_left_out(link: str) -> None:
    assert Parsed(render(element("a", "x", href=link))).attributes == [{}]


@pytest.mark.parametrize("value", ["url(https://example.org/x.svg#a)", "url( #a )", "image-set('x')", "url(#a) url(b)"])
def test_a_colour_loads_nothing(value: str) -> None:
    assert Parsed(render(element("rect", fill=value))).attributes == [{}]
    assert Parsed(render(element("rect", fill="url(#a)"))).attributes == [{"fill": "url(#a)"}]


def test_hostile_text_in_the_place_of_a_title() -> None:
    page = make_page(HOSTILE).decode()
    assert page.count("<script") == page.count("alert(1)</script>") == 0
    assert page.count("<style>") == page.count("</style>") == 1
