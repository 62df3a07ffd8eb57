"""Pages: their policy, their contents and headings, tables, what is folded, colours that can be read."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from parsed_pages import Parsed

from worldsize.wings.pictures.colours import FADED, GRID, PALETTE
from worldsize.wings.pictures.markup import element
from worldsize.wings.pictures.page import details, key_values, make_page, section, table
from worldsize.wings.pictures.rendering import render
from worldsize.wings.pictures.style import COLOURS


def luminance(colour: str) -> float:
    """As WCAG 2.2 defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed() -> None:
    assert round(contrast("#000000", "#ffffff"), 1) == 21.0
    assert round(contrast("#777777", "#ffffff"), 2) == 4.48


@pytest.mark.parametrize("which", [0, 1])
def test_text_has_the_contrast_of_level_aa(which: int) -> None:
    for paper in ("paper", "raised"):
        for name in ("ink", "muted", "link", "good", "warning", "bad"):
            assert contrast(COLOURS[name][which], COLOURS[paper][which]) >= 4.5, (name, paper)


@pytest.mark.parametrize("colour", [*PALETTE, FADED, GRID])
def test_lines_are_seen_on_light_and_on_dark_pages(colour: str) -> None:
    assert min(contrast(colour, paper) for paper in COLOURS["paper"]) >= 3


def test_the_policy_admits_the_one_style_sheet_and_nothing_else() -> None:
    page = make_page("t", "x").decode()
    style = re.search("<style>(.*)</style>", page, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    policy = "default-src 'none'; style-src 'sha256-%s'; img-src data:; base-uri 'none'; form-action 'none'" % digest
    assert '<meta http-equiv="Content-Security-Policy" content="%s">' % policy in page
    assert page.index("Content-Security-Policy") < page.index("<style>")
    assert "url(" not in style[1] and "@import" not in style[1]


def test_a_page_says_its_language_and_its_encoding_and_is_always_the_same() -> None:
    page = make_page("é", section("a", "b"))
    assert page.startswith(b'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">')
    assert "é".encode() in page and page == make_page("é", section("a", "b"))


def test_the_contents_name_the_sections_of_the_page() -> None:
    parts = [section("s%d" % number, "Part <%d>" % number, section("inner%d" % number, "x")) for number in range(3)]
    parsed = Parsed(make_page("t", "text", *parts))
    links = [each.get("href") for each in parsed.attributes if "href" in each]
    assert links == ["#s0", "#s1", "#s2"] and parsed.text_of("a") == "Part <0>Part <1>Part <2>"
    assert {"s0", "s1", "s2"} <= {each.get("id") for each in parsed.attributes}
    assert "nav" not in Parsed(make_page("t", *parts[:2])).tags, "few sections need none"


def test_levels_of_headings_follow_each_other() -> None:
    inner = section("c", "three", section("d", "four"))
    parsed = Parsed(make_page("one", section("a", "two", details("x", inner)), section("e", "two again")))
    assert [tag for tag in parsed.tags if re.fullmatch("h[1-6]", tag)] == ["h1", "h2", "h3", "h4", "h2"]
    deep = section("x", "deepest")
    for _ in range(9):
        deep = section("x", "deeper", deep)
    assert render(deep).count("<h6") == 6


def test_a_section_is_named_by_its_heading() -> None:
    first, second = Parsed(render(section("a", "b"))).attributes
    assert first == {"id": "a", "aria-labelledby": "a-heading"} and second == {"id": "a-heading"}


def test_tables_say_what_heads_a_row_and_a_column() -> None:
    parsed = Parsed(render(table(["node", "seconds"], [["n1", "1.5"], ["n2", "3 GiB"], ["n3", "many words"]], "Times")))
    scopes = [each["scope"] for each in parsed.attributes if "scope" in each]
    assert scopes == ["col", "col", "row", "row", "row"]
    assert parsed.text_of("caption") == "Times" and parsed.text_of("td") == "1.53 GiBmany words"
    assert [each.get("class") for each in parsed.attributes_of("td")] == ["number", "number", None]
    assert parsed.attributes[0]["tabindex"] == "0", "the keyboard scrolls it"


@pytest.mark.parametrize("text", ["1", "-1.5", "1,234", "12 %", "3.2 GiB/s", "1e-05", "nan", "-inf", "4 s"])
def test_numbers_stand_to_the_right(text: str) -> None:
    assert 'class="number"' in render(table(["a", "b"], [["x", text]]))


@pytest.mark.parametrize("text", ["", "a1", "1-2", "2 of 4 GPUs", "10.0.0.1 and more", "1" * 41])
def test_other_cells_stand_to_the_left(text: str) -> None:
    assert 'class="number"' not in render(table(["a", "b"], [["x", text]]))


def test_a_row_may_be_short_or_empty() -> None:
    assert Parsed(render(table(["a", "b"], [["x"], []]))).tags.count("tr") == 3


def test_names_with_their_values() -> None:
    parsed = Parsed(render(key_values([("state", element("b", "FAILED", class_="bad")), ("code", "1")])))
    assert parsed.tags == ["dl", "dt", "dd", "b", "dt", "dd"]


def test_details_are_folded_or_open() -> None:
    assert render(details("s", "x")) == "<details><summary>s</summary>x</details>"
    assert render(details("s", "x", open=True)) == '<details open=""><summary>s</summary>x</details>'


def test_void_elements_are_not_closed() -> None:
    assert render(element("p", "a", element("br"), "b")) == "<p>a<br>b</p>"
