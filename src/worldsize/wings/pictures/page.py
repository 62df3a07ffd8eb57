"""HTML pages of one file: no server, no script from elsewhere, nothing that text from a run could become."""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple, TypeAlias

Child: TypeAlias = "Element | str | bytes"
"""An element, text, or SVG as `draw_chart` makes it."""


class Element(NamedTuple):
    tag: str
    attributes: dict[str, str]
    children: tuple[Child, ...]


def element(tag: str, *children: Child, **attributes: str) -> Element:
    """An element of HTML; `class_` is the attribute `class`. Text is text, whatever it holds."""
    return Element(tag, {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}, children)


def make_page(title: str, *children: Child) -> bytes:
    """The whole page, with worldsize's styles, in UTF-8."""
    raise NotImplementedError
