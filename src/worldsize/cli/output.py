"""Everything that the command line shows goes through here; no other module of it writes to stdout or stderr.

What jobs, runs, servers and files of others say drives no terminal: it is shown escaped. Colours are worldsize's own,
where the stream is a terminal that has them. `show` and `report` take lines: a line break within one is part of a
value, and is escaped too, so that no value passes for a line of worldsize's own.

Written as it is, because that is what was asked for:

show_document  where stdout is no terminal: a file to be kept, or the input of another program (`convert | patch`)
show_log       made safe by logs.text already, with the colours of the ranks: `run`, `logs`, `exec`
show_bytes     `logs --raw`

`shell` and `env shell` hand the terminal over to a shell, and write nothing.
"""

from __future__ import annotations

import os
import re
import sys

from worldsize.common.named_tuple import Any, TextIO
from worldsize.errors import WorldsizeError

_CLEAR = "\r\x1b[K"
_RED, _GREEN, _YELLOW = "31", "32", "33"
_COLOURS = {
    "SUCCEEDED": _GREEN, "FAILED": _RED, "LOST": _RED, "CANCELLED": _YELLOW, "STOPPING": _YELLOW,
    "ok": _GREEN, "warning": _YELLOW, "bad": _RED,
}  # fmt: skip
"""Of the states of runs, and of the verdicts of checks."""
_COLOURED = r"(\x1b\[(?:31|32|33)m[A-Za-z]+\x1b\[0m)"
"""As `state_text` makes it."""


def show(*lines: str) -> None:
    """The answer, on stdout: each argument is one line."""
    sys.stdout.write("".join([_line(line, sys.stdout) + "\n" for line in lines]))


def report(*lines: str) -> None:
    """News for the person, beside the answer, and after what has been shown of it: on stderr, at once. Each argument is
    one line."""
    try:
        sys.stdout.flush()
    except OSError:
        pass  # nobody reads it; the end of the program finds the same
    sys.stderr.write("".join([_line(line, sys.stderr) + "\n" for line in lines]))
    sys.stderr.flush()


def report_message(text: str) -> None:
    """A message in words of others, perhaps in several lines: those after the first are indented."""
    report(*lines_of(text))


def report_error(error: WorldsizeError | str) -> None:
    """How a command ends that could not do what it was asked. Values in it that are no values may be secrets."""
    from worldsize.trust.secrets import mask_text

    if isinstance(error, str):
        report_message("worldsize: " + mask_text(error))
        return
    what = f"{error.where}: {error.what}" if error.where else error.what
    report(*lines_of("worldsize: " + mask_text(what)), *(["  → " + error.hint] if error.hint else []))


def lines_of(text: str) -> list[str]:
    """Return the lines of a message, for `show` and `report`; those after the first are indented."""
    if text.isprintable():
        return [text]
    from worldsize.logs.text import split_message

    return split_message(text)


def terminal_width() -> int | None:
    """Return the columns of the terminal that stdout is; None where it is none."""
    if not sys.stdout.isatty():
        return None
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def show_json(value: Any) -> None:
    import json

    show_json_text(json.dumps(value, indent=2, ensure_ascii=False))


def show_json_text(text: str) -> None:
    """JSON that is there as text, the same value; what drives a terminal is escaped in it."""
    if not text.isascii() or "\x7f" in text:
        from worldsize.logs.text import escape_json

        text = escape_json(text)
    sys.stdout.write(text + "\n")


def show_document(text: str) -> None:
    """A whole file, to be kept or to be another program's input: exactly as it is where stdout is no terminal."""
    if sys.stdout.isatty():
        show(*text.removesuffix("\n").split("\n"))
    else:
        sys.stdout.write(text)


def show_log(text: str) -> None:
    """What ranks wrote, as logs.text gives it."""
    sys.stdout.write(text)
    sys.stdout.flush()


def show_error_log(text: str) -> None:
    """What ranks or a command on nodes wrote to stderr, as logs.text gives it."""
    sys.stderr.write(text)
    sys.stderr.flush()


def show_bytes(data: bytes) -> None:
    """Bytes that a person asked for as they are."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def show_transient_line(text: str = "") -> None:
    """A line at a terminal that the next one takes the place of; "" takes it away."""
    sys.stderr.write(_CLEAR + _line(text, sys.stderr)[: _columns() - 1])
    sys.stderr.flush()


def show_question(question: str) -> None:
    """A question, behind which the answer is typed."""
    sys.stderr.write(_line(question, sys.stderr))
    sys.stderr.flush()


def report_from_handler(*lines: str) -> None:
    """As `report`, from inside a signal handler, where the buffered streams may be in use."""
    try:
        os.write(2, "".join([_line(line, sys.stderr) + "\n" for line in lines]).encode(errors="backslashreplace"))
    except OSError:
        pass  # nobody is there to be told


def _line(text: str, stream: TextIO) -> str:
    if text.isprintable():
        return text
    from worldsize.logs.text import escape

    if "\x1b" in text and _has_colours(stream):
        return "".join([piece if i % 2 else escape(piece) for i, piece in enumerate(re.split(_COLOURED, text))])
    return escape(text)


def state_text(state: str, stream: TextIO) -> str:
    """Return a state's name, or a verdict, in its colour for people at a terminal who have not asked for none
    (https://no-color.org)."""
    return f"\x1b[{_COLOURS[state]}m{state}\x1b[0m" if state in _COLOURS and _has_colours(stream) else state


def _has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80
