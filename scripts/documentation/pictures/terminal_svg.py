"""Terminals as SVG: one picture of the last screen, or an animation of all."""

from __future__ import annotations

import html
from collections.abc import Sequence

from scripts.documentation.pictures.recording import Frame, Line

LETTER, HEIGHT, MARGIN, BAR, FONT = 7.8, 18, 14, 30, 13
"""Pixels: the width of a letter, the height of a line, the margin, the title bar, the letters."""
BLANK = "\N{NO-BREAK SPACE}"
"""Between words: renderers join several ordinary blanks."""
COLOURS = {
    "black": "#484f58",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": "#b1bac4",
}
_STYLE = (
    "text{font:%dpx ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#e6edf3}"
    ".bold{font-weight:600}.dim{fill:#8b949e}.title{fill:#8b949e;text-anchor:middle}"
) % FONT


def draw_screen(frame: Frame, title: str, columns: int) -> str:
    """Return a picture of a terminal, as high as its lines."""
    lines = _trimmed(frame.lines)
    body = "".join(_text(line, number) for number, line in enumerate(lines))
    return _window(body, title, columns, len(lines), "")


def draw_recording(frames: Sequence[Frame], title: str, columns: int) -> str:
    """Return an animation that repeats. Where people prefer less motion, it is the last screen."""
    rows = max(len(frame.lines) for frame in frames)
    width = _width(columns)
    names: dict[Line, str] = {}
    parts = []
    for place, frame in enumerate(frames[:-1]):
        uses = []
        for number, line in enumerate(frame.lines):
            if line:
                name = names.setdefault(line, "l%d" % len(names))
                uses.append('<use href="#%s" y="%d"/>' % (name, number * HEIGHT))
        parts.append('<g transform="translate(%d)">%s</g>' % (place * width, "".join(uses)))
    shared = "".join('<g id="%s">%s</g>' % (name, _text(line, 0)) for line, name in names.items())
    end = frames[-1].time
    steps = "".join(
        "%.3f%%{transform:translateX(%dpx)}" % (100 * frame.time / end, -place * width)
        for place, frame in enumerate(frames[:-1])
    )
    last = -(len(frames) - 2) * width
    style = (
        "@keyframes play{%s}.film{animation:play %.2fs step-end infinite}"
        "@media(prefers-reduced-motion){.film{animation:none;transform:translateX(%dpx)}}" % (steps, end, last)
    )
    body = '<defs>%s</defs><g class="film">%s</g>' % (shared, "".join(parts))
    return _window(body, title, columns, rows, style)


def _trimmed(lines: Sequence[Line]) -> list[Line]:
    kept = list(lines)
    while kept and not kept[-1]:
        kept.pop()
    return kept


def _width(columns: int) -> int:
    return round(columns * LETTER + 2 * MARGIN)


def _text(line: Line, number: int) -> str:
    """One line of text. Each run has its own place, so that letters are in columns with any font."""
    found = []
    column = 0
    for text, style in line:
        if text.strip():
            start = column + len(text) - len(text.lstrip())
            shown = text.strip()
            found.append(
                '<tspan x="%g" textLength="%g"%s>%s</tspan>'
                % (
                    MARGIN + start * LETTER,
                    len(shown) * LETTER,
                    _attributes(style),
                    html.escape(shown, quote=False).replace(" ", BLANK),
                )
            )
        column += len(text)
    if not found:
        return ""
    return '<text y="%d">%s</text>' % (BAR + MARGIN + FONT + number * HEIGHT, "".join(found))


def _attributes(style: str) -> str:
    words = style.split()
    colour = next((COLOURS[word] for word in words if word in COLOURS), "")
    return "".join(
        (' class="bold"' if "bold" in words else "", ' fill="%s" style="fill:%s"' % (colour, colour) if colour else "")
    )


def _window(body: str, title: str, columns: int, rows: int, style: str) -> str:
    width, height = _width(columns), BAR + 2 * MARGIN + rows * HEIGHT
    dots = "".join(
        '<circle cx="%d" cy="15" r="5" fill="%s"/>' % (18 + 18 * n, c)
        for n, c in enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">'
        "<title>%s</title><style>%s%s</style>"
        '<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>%s'
        '<text class="title" x="%d" y="19">%s</text>'
        '<svg width="%d" height="%d">%s</svg></svg>\n'
    ) % (
        width,
        height,
        width,
        height,
        html.escape(title),
        _STYLE,
        style,
        dots,
        width // 2,
        html.escape(title),
        width,
        height,
        body,
    )
