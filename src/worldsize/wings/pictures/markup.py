"""Elements of HTML and SVG, and what may stand in them: nothing but what code named is markup.

Tags and names of attributes are code's own, out of a list; anything else is a ValueError. Text, values of attributes
and SVG may come from anywhere: they load nothing, run nothing, and lead nowhere but to http, https and the page.
"""

from __future__ import annotations

import re

from worldsize.common.named_tuple import NamedTuple, TypeAlias
from worldsize.logs.text import escape

Child: TypeAlias = "Element | str | bytes"
"""An element, text, or SVG as `draw_chart` makes it."""


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
"""What CSS says of SVG that an attribute may say, too."""
SVG_ATTRIBUTES = PRESENTATION | _names(
    "viewBox preserveAspectRatio width height x y x1 y1 x2 y2 dx dy cx cy r rx ry d points transform id href"
    " clipPathUnits"
)
ATTRIBUTES = SVG_ATTRIBUTES | _names(
    "alt class colspan datetime dir headers hidden lang max min open role rowspan scope span src start tabindex title"
    " value"
)
_LINK = r"#[^\s]*|https?://[^\s]+|(?![a-zA-Z][a-zA-Z0-9+.-]*:)(?![\\/]{2})[^\s]+"
"""A place in the page, a page of the web, or a file beside the page."""
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
    """Return an element of HTML or SVG; `class_` is the attribute `class`, `stroke_width` is `stroke-width`. Text is
    text, whatever it holds. A link (`href`) of another kind than http, https, `#id` or a relative path is left out."""
    return Element(tag, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}, children)


def visible_text(text: str) -> str:
    """`text` with its lines and tabs; control characters, those that turn the direction of text and what is no text
    are shown as Python writes them (`\\x1b`)."""
    if not text.isprintable():
        text = "\n".join(map(escape, text.split("\n")))
    return text.encode("utf-8", "backslashreplace").decode()


def is_harmless(name: str, value: str) -> bool:
    """Return whether the value loads nothing and leads to nothing but a page."""
    shape = _SHAPES.get(name)
    if shape is not None:
        return value.isprintable() and shape.fullmatch(value) is not None
    return name not in PRESENTATION or "(" not in value or _REFERENCE.fullmatch(value) is not None
