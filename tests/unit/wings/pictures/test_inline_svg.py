"""SVG inside a page: what draws is kept, whatever could run, load or lead elsewhere is not."""

from __future__ import annotations

import pytest
from parsed_pages import Parsed

from worldsize.wings.pictures.inline_svg import read_svg
from worldsize.wings.pictures.page import make_page
from worldsize.wings.pictures.rendering import render

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 9 9">'


def drawn(content: str) -> str:
    return render((HEAD + content + "</svg>").encode())


@pytest.mark.parametrize(
    "content",
    ["<script>alert(1)</script>", "<style>@import 'x';</style>", "<foreignObject><p>x</p></foreignObject>",
     "<image href='https://example.org/x.png'/>", "<animate onbegin='x()'/>", "<set attributeName='href'/>",
     "<metadata>x</metadata>", "<?x y?>", "<!-- x -->", "<a href='x'/>", "<html:script xmlns:html='http://www.w3.org/1999/xhtml'>x</html:script>"],
)  # fmt: skip
def test_what_could_run_or_load_is_left_out(content: str) -> None:
    assert drawn(content + "<g>" + content + "</g>") == drawn("<g/>")


@pytest.mark.parametrize(
    "attribute",
    ["onload='x()'", "style='background:url(x)'", "style='fill:url(https://x)'", "fill='url(https://x#a)'", "href='https://x'",
     "xlink:href='javascript:x'", "xlink:href='other.svg#a'", "class='x'", "xml:base='https://x'", "style='fill'"],
)  # fmt: skip
def test_attributes_that_could_are_left_out(attribute: str) -> None:
    assert drawn("<use %s/>" % attribute) == drawn("<use/>")


def test_styles_are_said_by_attributes() -> None:
    style = "fill: none; stroke: #0072b2; stroke-width: 1.5; behavior: url(x); font: bold 10.5px 'DejaVu Sans', serif"
    parsed = Parsed(drawn('<text style="%s">a &lt; b</text>' % style))
    assert parsed.attributes[1] == {
        "fill": "none", "stroke": "#0072b2", "stroke-width": "1.5", "font-weight": "bold", "font-size": "10.5px",
        "font-family": "'DejaVu Sans', serif",
    }  # fmt: skip
    assert parsed.text_of("text") == "a < b"


def test_ink_and_paper_are_those_of_the_page() -> None:
    parsed = Parsed(drawn('<path style="fill: #ffffff; stroke: #1b1f24" d="M 0 0"/>'))
    assert parsed.attributes[1] == {"d": "M 0 0", "fill": "none", "stroke": "currentColor"}


def test_a_picture_has_a_name() -> None:
    assert Parsed(drawn("<title>a &amp; b</title>")).attributes[0]["aria-label"] == "a & b"
    assert Parsed(drawn("")).attributes[0]["role"] == "img"


def test_pictures_of_one_page_do_not_name_each_others_parts() -> None:
    content = '<defs><path id="m"/></defs><use xlink:href="#m"/><g clip-path="url(#m)"/>'
    picture = (HEAD + content + "</svg>").encode()
    parsed = Parsed(make_page("t", picture, picture))
    assert [each["id"] for each in parsed.attributes if "id" in each] == ["picture1-m", "picture2-m"]
    assert [each["href"] for each in parsed.attributes if "href" in each] == ["#picture1-m", "#picture2-m"]
    clips = [each["clip-path"] for each in parsed.attributes if "clip-path" in each]
    assert clips == ["url(#picture1-m)", "url(#picture2-m)"]


def test_what_lies_deep_is_left_out() -> None:
    assert drawn("<g>" * 5000 + "</g>" * 5000).count("<g>") == 32


@pytest.mark.parametrize(
    "data",
    [b"", b"<svg", b"<svg/>", b"\x89PNG\r\n", b"<html xmlns='http://www.w3.org/2000/svg'/>",
     b"<!DOCTYPE svg [<!ENTITY a 'aaaa'>]>" + HEAD.encode() + b"</svg>", "<svg/>".encode("utf-16")],
)  # fmt: skip
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        read_svg(data, "")
