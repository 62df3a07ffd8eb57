"""The conversion of SVG into elements of a page. Only elements that draw are kept: no script, no link, nothing
external.

A style sheet is left out, since a page's policy forbids it; the content of `style=` is converted into attributes. The
colours of ink and paper become those of the page, dark or light.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree  # nosec B405  # the output of `draw_chart`; a document type with entities is refused

from worldsize.wings.pictures.colours import INK, PAPER
from worldsize.wings.pictures.markup import (
    PRESENTATION,
    SVG_ATTRIBUTES,
    SVG_TAGS,
    Child,
    Element,
    is_harmless,
)

_DEEPEST = 32
_LARGEST = 32 << 20
_NAMESPACE = "{http://www.w3.org/2000/svg}"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_FONT = re.compile(r"(?:(italic|oblique|normal)\s+)?(?:(bold|[1-9]00)\s+)?([\d.]+(?:px|pt)?)\s+(.+)")
_PAGE_COLOURS = {INK: "currentColor", PAPER: "none"}


def read_svg(data: bytes, prefix: str) -> Element:
    """Return the SVG picture `data` as an element of a page, with ids that begin with `prefix`. Raise ValueError if the
    data is not SVG, is too large, or declares entities."""
    if len(data) > _LARGEST or b"<!ENTITY" in data:
        raise ValueError("an SVG picture that is too large, or declares entities")
    try:
        root = ElementTree.fromstring(data)  # nosec B314  # bounded above
    except ElementTree.ParseError as error:
        raise ValueError(f"not SVG: {error}") from None
    if root.tag != _NAMESPACE + "svg":
        raise ValueError("XML, but not SVG")
    name = root.findtext(_NAMESPACE + "title") or "chart"
    picture = _converted(root, prefix, 0)
    # The values that matplotlib sets in a style sheet.
    attributes = {"stroke-linejoin": "round", "stroke-linecap": "butt", **picture.attributes}
    return picture._replace(attributes={**attributes, "role": "img", "aria-label": name})


def _converted(node: ElementTree.Element, prefix: str, depth: int) -> Element:
    tag = node.tag.removeprefix(_NAMESPACE)
    children: list[Child] = [node.text] if node.text and tag in ("text", "tspan", "title", "desc") else []
    for child in node if depth < _DEEPEST else ():
        if child.tag.removeprefix(_NAMESPACE) in SVG_TAGS:
            children.append(_converted(child, prefix, depth + 1))
    return Element(tag, _attributes(node, prefix), tuple(children))


def _attributes(node: ElementTree.Element, prefix: str) -> dict[str, str]:
    given = {("href" if name == _XLINK else name): value for name, value in node.attrib.items()}
    given.update(_declarations(given.pop("style", "")))
    return {
        name: _PAGE_COLOURS.get(value, value) if name in ("fill", "stroke") else _with_prefix(name, value, prefix)
        for name, value in given.items()
        if name in SVG_ATTRIBUTES and is_harmless(name, value) and (name != "href" or value.startswith("#"))
    }


def _declarations(style: str) -> dict[str, str]:
    """Return the CSS declarations in the attribute `style` of an SVG element as attributes, by name."""
    found: dict[str, str] = {}
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            found.update(_font(value))
        elif name in PRESENTATION and value:
            found[name] = value
    return found


def _font(value: str) -> dict[str, str]:
    match = _FONT.fullmatch(value)
    if match is None:
        return {}
    names = ("font-style", "font-weight", "font-size", "font-family")
    return {name: said for name, said in zip(names, match.groups(), strict=True) if said}


def _with_prefix(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return prefix + value
    if name == "href":
        return "#" + prefix + value[1:]
    return f"url(#{prefix}{value[5:]}" if value.startswith("url(#") else value
