"""The conversion of elements into the text of a page."""

from __future__ import annotations

from html import escape as escape_html

from worldsize.wings.pictures.inline_svg import read_svg
from worldsize.wings.pictures.markup import (
    ATTRIBUTES,
    HTML_TAGS,
    SVG_TAGS,
    VOID_TAGS,
    Child,
    Element,
    is_harmless,
    visible_text,
)


def render(child: Child) -> str:
    return "".join(_Renderer().parts_of(child))


class _Renderer:
    """The renderer of one HTML page. It numbers the pictures, so that their ids are not confused with each other."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.pictures = 0

    def parts_of(self, child: Child) -> list[str]:
        self._add(child, 0)
        return self.parts

    def _add(self, child: Child, sections: int) -> None:
        if isinstance(child, str):
            self.parts.append(escape_html(visible_text(child), quote=False))
        elif isinstance(child, bytes):
            self.pictures += 1
            self._add(read_svg(child, f"picture{self.pictures}-"), sections)
        else:
            self._add_element(child, sections)

    def _add_element(self, node: Element, sections: int) -> None:
        """Add the HTML text of an element and its children to the page. `sections` is the number of sections around it.
        A heading `h2` in a section within a section becomes an `h3`, and so on, so that the levels are consecutive."""
        sections += node.tag == "section"
        tag = f"h{min(6, sections + 1)}" if node.tag == "h2" and sections else node.tag
        self.parts.append(_opening(tag, node.attributes))
        if tag in VOID_TAGS:
            return
        if tag == "pre":
            self.parts.append("\n")  # a parser drops the first newline
        for child in node.children:
            self._add(child, sections)
        self.parts.append(f"</{tag}>")


def _opening(tag: str, attributes: dict[str, str]) -> str:
    if tag not in HTML_TAGS and tag not in SVG_TAGS:
        raise ValueError(f"<{tag}> is not an element of a page")
    words = [_attribute(name, value) for name, value in attributes.items()]
    return f"<{tag}{''.join(words)}>"


def _attribute(name: str, value: str) -> str:
    if name not in ATTRIBUTES and not name.startswith("aria-"):
        raise ValueError(f"{name} is not an attribute of a page's element")
    if not is_harmless(name, value):
        return ""
    return f' {name}="{escape_html(visible_text(value))}"'
