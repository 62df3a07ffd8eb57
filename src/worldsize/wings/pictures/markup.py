"""Elements of HTML and SVG, and the content that they may have: only what the code names is markup.

Tags and names of attributes come from the code and must be in a list; any other is a ValueError. Text, values of
attributes and SVG may come from any source: they load nothing, run nothing, and link only to http, https and the page.
"""

from __future__ import annotations

import re

from worldsize.common.named_tuple import NamedTuple, TypeAlias
from worldsize.logs.text import escape

Child: TypeAlias = "Element | str | bytes"
"""An element, text, or SVG from `draw_chart`."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


VOID_TAGS = _names("br col hr img wbr")
HTML_TAGS = VOID_TAGS | _names(
    "a abbr article aside b blockquote caption code colgroup dd details div dl dt em figcaption figure footer h1 h2 h3"
    " h4 h5 h6 header i kbd li main mark meter nav ol p pre progress s samp section small span strong sub summary sup"
    " table tbody td tfoot th thead time tr ul var"
)
SVG_TAGS = _names("svg g path rect line circle ellipse polyline polygon text tspan title desc defs clipPath use")
PRESENTATION = _names(
    "clip-path clip-rule fill fill-opacity fill-rule font-family font-size font-style font-weight opacity stroke"
    " stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit stroke-opacity stroke-width"
    " text-anchor dominant-baseline"
)
"""The CSS properties of SVG that may also be attributes."""
SVG_ATTRIBUTES = PRESENTATION | _names(
    "viewBox preserveAspectRatio width height x y x1 y1 x2 y2 dx dy cx cy r rx ry d points transform id href"
    " clipPathUnits"
)
ATTRIBUTES = SVG_ATTRIBUTES | _names(
    "alt class colspan datetime dir headers hidden lang max min open role rowspan scope span src start tabindex title"
    " value"
)
_LINK = r"#[^\s]*|https?://[^\s]+|(?![a-zA-Z][a-zA-Z0-9+.-]*:)(?![\\/]{2})[^\s]+"
"""The pattern of a link to a place in the page, to a page of the web, or to a file next to the page."""
_SHAPES = {
    "href": re.compile(_LINK),
    "src": re.compile(r"data:image/png;base64,[A-Za-z0-9+/=]*"),
}
_REFERENCE = re.compile(r"url\(#[\w.-]+\)")


class Element(NamedTuple):
    tag: str
    attributes: dict[str, str]
    children: tuple[Child, ...]


def element(tag: str, *children: Child, **attributes: str) -> Element:
    """Return an element of HTML or SVG. `class_` is the attribute `class`, and `stroke_width` is `stroke-width`. Text
    is never interpreted as markup. A link (`href`) other than http, https, `#id` or a relative path is left out when
    the element is rendered."""
    return Element(tag, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}, children)


def visible_text(text: str) -> str:
    r"""Return `text` with its lines and tabs. Control characters, characters that change the direction of text, and
    invalid characters are shown as Python writes them (`\x1b`)."""
    if not text.isprintable():
        text = "\n".join(map(escape, text.split("\n")))
    return text.encode("utf-8", "backslashreplace").decode()


def is_harmless(name: str, value: str) -> bool:
    """Return whether the value of the attribute `name` of an HTML or SVG element loads nothing, and links only to a
    page."""
    shape = _SHAPES.get(name)
    if shape is not None:
        return value.isprintable() and shape.fullmatch(value) is not None
    return name not in PRESENTATION or "(" not in value or _REFERENCE.fullmatch(value) is not None
