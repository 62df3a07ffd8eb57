"""What a parser reads out of a page."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"br", "hr", "img", "meta", "col", "wbr"}


class Parsed(HTMLParser):
    """`tags` in order, `attributes` of each, `texts` of the innermost open tags; nothing may be left open."""

    def __init__(self, page: str | bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[dict[str, str | None]] = []
        self.texts: list[tuple[str, str]] = []
        self.comments: list[str] = []
        self._open: list[str] = []
        self.feed(page if isinstance(page, str) else page.decode())
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.append(dict(attrs))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def attributes_of(self, tag: str) -> list[dict[str, str | None]]:
        return [each for name, each in zip(self.tags, self.attributes, strict=True) if name == tag]

    def text_of(self, tag: str) -> str:
        return "".join(text for where, text in self.texts if where == tag)
